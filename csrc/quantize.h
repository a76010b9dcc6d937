// Activations of one group of 64 to one or two int8 planes: x = scale * (q1 + q2 / 254) up to rounding.
#pragma once
#include <cstring>

#include "matmul_kernels.h"
#include "simd/dot.h"

namespace coli::COLI_PATH {

// load_first and store_first for n <= 16, where 16 is the usual case.
COLI_INLINE f32x16 load_n(const float* p, int n) { return n == 16 ? load(p) : load_first(p, n); }
COLI_INLINE void store_n(float* p, f32x16 x, int n) {
  if (n == 16) store(p, x);
  else store_first(p, x, n);
}

COLI_INLINE int32_t abs_bits_max(const f32x16 x[4]) {
  i32x16 m = izero();
  for (int i = 0; i < 4; i++) m = imax(m, iand(as_int(x[i]), iset1(0x7fffffff)));
  return reduce_max(m);
}

COLI_INLINE float float_of_bits(int32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

COLI_INLINE void put_group(uint8_t* row, int64_t groups, int64_t g, const i32x16 q[4], float scale) {
  i32x16 sum = izero();
  for (int i = 0; i < 4; i++) {
    store_i8((int8_t*)row + g * 64 + 16 * i, q[i]);
    sum = iadd(sum, q[i]);
  }
  int32_t total = reduce_add(sum);
  std::memcpy(row + groups * 64 + g * 8, &scale, 4);
  std::memcpy(row + groups * 64 + g * 8 + 4, &total, 4);
}

COLI_INLINE i32x16 round_to_i8(f32x16 x) { return imin(imax(to_int(x), iset1(-127)), iset1(127)); }

COLI_INLINE void quantize_group(const f32x16 x[4], const Activations& out, int64_t token, int64_t g) {
  constexpr int32_t infinity = 0x7f800000, tiny = (127 - 100) << 23;  // 2^-100
  i32x16 q[4];
  int32_t bits = abs_bits_max(x);
  if (bits >= infinity || bits < tiny) {
    for (int i = 0; i < 4; i++) q[i] = izero();
    float scale = bits < tiny ? 0.f : float_of_bits(0x7fc00000);
    for (int p = 0; p < out.planes; p++) put_group(out.row(token, p), out.groups, g, q, scale);
    return;
  }
  float m = float_of_bits(bits), scale = m / 127.f, inverse = 127.f / m;
  for (int i = 0; i < 4; i++) q[i] = round_to_i8(mul(x[i], set1(inverse)));
  put_group(out.row(token, 0), out.groups, g, q, scale);
  if (out.planes == 1) return;
  float finer = 254.f / scale;
  for (int i = 0; i < 4; i++) q[i] = round_to_i8(mul(fnma(to_float(q[i]), set1(scale), x[i]), set1(finer)));
  put_group(out.row(token, 1), out.groups, g, q, scale / 254.f);
}

}  // namespace coli::COLI_PATH
