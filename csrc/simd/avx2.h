// 16 lanes in two 256-bit registers.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace coli::COLI_PATH {

#define COLI_INLINE static inline __attribute__((always_inline))

constexpr int kRegisters = 8;  // values of 16 lanes that fit

struct f32x16 { __m256 a, b; };   // lanes 0..7, 8..15
struct i32x16 { __m256i a, b; };
struct mask16 { __m256 a, b; };

COLI_INLINE f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
COLI_INLINE void store(float* p, f32x16 x) { _mm256_storeu_ps(p, x.a); _mm256_storeu_ps(p + 8, x.b); }
COLI_INLINE f32x16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
COLI_INLINE f32x16 held(f32x16 x) { return x; }
COLI_INLINE f32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
// The first n (0..16) floats, zeros after: never reads past p + n.
COLI_INLINE f32x16 load_first(const float* p, int n) {
  alignas(32) float t[16] = {};
  std::memcpy(t, p, sizeof(float) * (size_t)n);
  return {_mm256_load_ps(t), _mm256_load_ps(t + 8)};
}
COLI_INLINE void store_first(float* p, f32x16 x, int n) {
  alignas(32) float t[16];
  _mm256_store_ps(t, x.a); _mm256_store_ps(t + 8, x.b);
  std::memcpy(p, t, sizeof(float) * (size_t)n);
}
COLI_INLINE f32x16 add(f32x16 x, f32x16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
COLI_INLINE f32x16 sub(f32x16 x, f32x16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
COLI_INLINE f32x16 mul(f32x16 x, f32x16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
COLI_INLINE f32x16 div(f32x16 x, f32x16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
COLI_INLINE f32x16 fma(f32x16 x, f32x16 y, f32x16 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
COLI_INLINE f32x16 fnma(f32x16 x, f32x16 y, f32x16 z) { return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)}; }
COLI_INLINE f32x16 round_even(f32x16 x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
}
// Lane-wise a > b ? a : b, so a NaN in either gives b: callers that must keep NaN select explicitly.
COLI_INLINE f32x16 max(f32x16 x, f32x16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
COLI_INLINE f32x16 min(f32x16 x, f32x16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
COLI_INLINE mask16 less(f32x16 x, f32x16 y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)}; }
COLI_INLINE mask16 is_nan(f32x16 x) { return {_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)}; }
COLI_INLINE f32x16 select(mask16 m, f32x16 x, f32x16 y) { return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)}; }

COLI_INLINE i32x16 iset1(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
COLI_INLINE i32x16 izero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
COLI_INLINE i32x16 iload(const int32_t* p) { return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 8))}; }
COLI_INLINE void istore(int32_t* p, i32x16 x) { _mm256_storeu_si256((__m256i*)p, x.a); _mm256_storeu_si256((__m256i*)(p + 8), x.b); }
COLI_INLINE i32x16 iadd(i32x16 x, i32x16 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
COLI_INLINE i32x16 imax(i32x16 x, i32x16 y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
COLI_INLINE i32x16 imin(i32x16 x, i32x16 y) { return {_mm256_min_epi32(x.a, y.a), _mm256_min_epi32(x.b, y.b)}; }
COLI_INLINE i32x16 iand(i32x16 x, i32x16 y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
template <int N> COLI_INLINE i32x16 shift_left(i32x16 x) { return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)}; }
COLI_INLINE f32x16 to_float(i32x16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
COLI_INLINE i32x16 to_int(f32x16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
COLI_INLINE f32x16 as_float(i32x16 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
COLI_INLINE i32x16 as_int(f32x16 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }

COLI_INLINE f32x16 load_f16(const void* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p + 1))};
}
COLI_INLINE f32x16 load_bf16(const void* p) {
  __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p + 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}

// The fixed tree: lane i + lane i+8, then +4, +2, +1. Every sum over 16 lanes in the project uses it.
COLI_INLINE float reduce_add(f32x16 x) {
  __m256 s = _mm256_add_ps(x.a, x.b);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
// Sixteen of these sums at once, the same additions: lane 4i + j is the sum of a[4j + i].
COLI_INLINE f32x16 reduce_add_each(const f32x16* a) {
  __m256 out[2];
  for (int o = 0; o < 2; o++) {  // the sums of a[4j + 2o] and a[4j + 2o + 1]
    __m256 quad[4], pair[2];
    for (int j = 0; j < 4; j++) {
      f32x16 x = a[4 * j + 2 * o], y = a[4 * j + 2 * o + 1];
      __m256 s = _mm256_add_ps(x.a, x.b), t = _mm256_add_ps(y.a, y.b);
      quad[j] = _mm256_add_ps(_mm256_permute2f128_ps(s, t, 0x20), _mm256_permute2f128_ps(s, t, 0x31));
    }
    for (int h = 0; h < 2; h++)
      pair[h] = _mm256_add_ps(_mm256_shuffle_ps(quad[2 * h], quad[2 * h + 1], 0x44), _mm256_shuffle_ps(quad[2 * h], quad[2 * h + 1], 0xee));
    out[o] = _mm256_add_ps(_mm256_shuffle_ps(pair[0], pair[1], 0x88), _mm256_shuffle_ps(pair[0], pair[1], 0xdd));
  }
  return {out[0], out[1]};
}
COLI_INLINE int32_t reduce_max(i32x16 x) {
  __m256i s = _mm256_max_epi32(x.a, x.b);
  __m128i q = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
COLI_INLINE int32_t reduce_add(i32x16 x) {
  __m256i s = _mm256_add_epi32(x.a, x.b);
  __m128i q = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}

COLI_INLINE void store_i8(int8_t* p, i32x16 a) {
  __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.a, a.b), 0xd8);
  _mm_storeu_si128((__m128i*)p, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
// Into the second-level cache: the first has room for too few loads in flight to wait for memory.
COLI_INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }
COLI_INLINE uint16_t to_half(float x) { return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

}  // namespace coli::COLI_PATH
