// Rotation of pairs by the angle of the position: (a, b) -> (a c - b s, b c + a s), each as one product rounded and
// one fused multiply-add: fma(a, c, -(b s)) and fma(b, c, a s).
#include "ops.h"

#include "simd/simd.h"

namespace coli::COLI_PATH {
namespace {

COLI_INLINE f32x16 negate(f32x16 x) { return mul(x, set1(-1.f)); }

COLI_INLINE void rotate(f32x16& a, f32x16& b, f32x16 c, f32x16 s) {
  f32x16 x = fma(a, c, negate(mul(b, s))), y = fma(b, c, mul(a, s));
  a = x;
  b = y;
}

// Pairs (i, i + half).
COLI_INLINE void half_split(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; i += 16) {
    int n = half - i < 16 ? (int)(half - i) : 16;
    f32x16 a = load_first(x + i, n), b = load_first(x + half + i, n);
    rotate(a, b, load_first(cos + i, n), load_first(sin + i, n));
    store_first(x + i, a, n);
    store_first(x + half + i, b, n);
  }
}

// Pairs (2i, 2i + 1).
COLI_INLINE void interleaved(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; i++) {
    float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = __builtin_fmaf(a, cos[i], -(b * sin[i]));
    x[2 * i + 1] = __builtin_fmaf(b, cos[i], a * sin[i]);
  }
}

void apply(const Rope& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++)
    for (int64_t h = 0; h < a.heads; h++) {
      float* x = a.x + (r * a.heads + h) * a.dim + a.offset;
      const float *c = a.cos + r * a.half, *s = a.sin + r * a.half;
      a.interleaved ? interleaved(x, c, s, a.half) : half_split(x, c, s, a.half);
    }
}

}  // namespace

const RopeKernels rope_kernels = {apply};

}  // namespace coli::COLI_PATH
