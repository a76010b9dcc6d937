// Rows of any length in steps of 16 lanes, and the sums that norms are made of. For files compiled once a path.
#pragma once
#include <cstdint>

#include "simd/simd.h"

namespace coli::COLI_PATH {

constexpr float kInf = __builtin_inff();
constexpr float kNan = __builtin_nanf("");

// Calls f(i, count) for each step of 16 elements.
template <class F> COLI_INLINE void steps(int64_t n, F f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(i, 16);
  if (i < n) f(i, (int)(n - i));
}
COLI_INLINE f32x16 get(const float* p, int count) { return count == 16 ? load(p) : load_first(p, count); }
COLI_INLINE void put(float* p, f32x16 x, int count) { count == 16 ? store(p, x) : store_first(p, x, count); }
// Lanes from count on become 0.
COLI_INLINE f32x16 keep_first(f32x16 x, int count) {
  if (count == 16) return x;
  alignas(64) float t[16] = {};
  store_first(t, x, count);
  return load(t);
}

// The sum of (x - mean)^2.
COLI_INLINE float sum_squares(const float* x, float mean, int64_t n) {
  f32x16 s = zero(), m = set1(mean);
  steps(n, [&](int64_t i, int c) {
    f32x16 d = keep_first(sub(get(x + i, c), m), c);
    s = fma(d, d, s);
  });
  return reduce_add(s);
}
// A sum that is infinite (an infinite input, or overflow) would turn the row into zeros: it becomes NaN instead.
COLI_INLINE float inverse_root(float sum, int64_t n, float eps) {
  return sum < kInf ? 1.f / __builtin_sqrtf(sum / (float)n + eps) : kNan;
}

}  // namespace coli::COLI_PATH
