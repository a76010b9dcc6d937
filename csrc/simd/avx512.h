// 16 lanes in one 512-bit register. avx2.h, neon.h and scalar.h define the same names with the same bits.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace coli::COLI_PATH {

#define COLI_INLINE static inline __attribute__((always_inline))

constexpr int kRegisters = 32;  // values of 16 lanes that fit

struct f32x16 { __m512 v; };
struct i32x16 { __m512i v; };
struct mask16 { __mmask16 v; };

COLI_INLINE f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
COLI_INLINE void store(float* p, f32x16 a) { _mm512_storeu_ps(p, a.v); }
// x, in a register: or g++ loads it again for each use.
COLI_INLINE f32x16 held(f32x16 x) {
  asm("" : "+v"(x.v));
  return x;
}
COLI_INLINE f32x16 set1(float a) { return {_mm512_set1_ps(a)}; }
COLI_INLINE f32x16 zero() { return {_mm512_setzero_ps()}; }
// The first n (0..16) floats, zeros after: never reads past p + n.
COLI_INLINE f32x16 load_first(const float* p, int n) {
  return {_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p)};
}
COLI_INLINE void store_first(float* p, f32x16 a, int n) {
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), a.v);
}
COLI_INLINE f32x16 add(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
COLI_INLINE f32x16 sub(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
COLI_INLINE f32x16 mul(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
COLI_INLINE f32x16 div(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
COLI_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    // a*b + c
COLI_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a*b
COLI_INLINE f32x16 round_even(f32x16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// Lane-wise a > b ? a : b, so a NaN in either gives b: callers that must keep NaN select explicitly.
COLI_INLINE f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
COLI_INLINE f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
COLI_INLINE mask16 less(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
COLI_INLINE mask16 is_nan(f32x16 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
COLI_INLINE f32x16 select(mask16 m, f32x16 a, f32x16 b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }  // m ? a : b

COLI_INLINE i32x16 iset1(int32_t a) { return {_mm512_set1_epi32(a)}; }
COLI_INLINE i32x16 izero() { return {_mm512_setzero_si512()}; }
COLI_INLINE i32x16 iload(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
COLI_INLINE void istore(int32_t* p, i32x16 a) { _mm512_storeu_si512(p, a.v); }
COLI_INLINE i32x16 iadd(i32x16 a, i32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
COLI_INLINE i32x16 imax(i32x16 a, i32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
COLI_INLINE i32x16 imin(i32x16 a, i32x16 b) { return {_mm512_min_epi32(a.v, b.v)}; }
COLI_INLINE i32x16 iand(i32x16 a, i32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
template <int N> COLI_INLINE i32x16 shift_left(i32x16 a) { return {_mm512_slli_epi32(a.v, N)}; }
COLI_INLINE f32x16 to_float(i32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
// Nearest, ties to even; out of range and NaN give INT32_MIN on every path.
COLI_INLINE i32x16 to_int(f32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
COLI_INLINE f32x16 as_float(i32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
COLI_INLINE i32x16 as_int(f32x16 a) { return {_mm512_castps_si512(a.v)}; }

COLI_INLINE f32x16 load_f16(const void* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }
COLI_INLINE f32x16 load_bf16(const void* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16))};
}

// The fixed tree: lane i + lane i+8, then +4, +2, +1. Every sum over 16 lanes in the project uses it.
COLI_INLINE float reduce_add(f32x16 a) {
  __m256 s = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
// Sixteen of these sums at once, the same additions: lane 4i + j is the sum of a[4j + i].
COLI_INLINE f32x16 reduce_add_each(const f32x16* a) {
  __m512 quad[4];  // a[4j .. 4j+3], 4 lanes each
  for (int j = 0; j < 4; j++) {
    __m512 half[2];
    for (int h = 0; h < 2; h++) {
      __m512 x = a[4 * j + 2 * h].v, y = a[4 * j + 2 * h + 1].v;
      half[h] = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
    }
    quad[j] = _mm512_add_ps(_mm512_shuffle_f32x4(half[0], half[1], 0x88), _mm512_shuffle_f32x4(half[0], half[1], 0xdd));
  }
  __m512 pair[2];
  for (int h = 0; h < 2; h++)
    pair[h] = _mm512_add_ps(_mm512_shuffle_ps(quad[2 * h], quad[2 * h + 1], 0x44), _mm512_shuffle_ps(quad[2 * h], quad[2 * h + 1], 0xee));
  return {_mm512_add_ps(_mm512_shuffle_ps(pair[0], pair[1], 0x88), _mm512_shuffle_ps(pair[0], pair[1], 0xdd))};
}
COLI_INLINE int32_t reduce_max(i32x16 a) { return _mm512_reduce_max_epi32(a.v); }
COLI_INLINE int32_t reduce_add(i32x16 a) { return _mm512_reduce_add_epi32(a.v); }

COLI_INLINE void store_i8(int8_t* p, i32x16 a) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(a.v)); }
// Into the second-level cache: the first has room for too few loads in flight to wait for memory.
COLI_INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }
COLI_INLINE uint16_t to_half(float x) { return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

}  // namespace coli::COLI_PATH
