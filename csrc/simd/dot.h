// Integer sums of products for 16 rows at once: a 64-byte line of packed weights (4 inputs of each row) times 4 int8
// activations. Dot<bits, rows in the tile> is the accumulator of one activation row over a group of 64 inputs; the
// sums are exact, so every path has the same.
//   kLines lines a group, kInputs activations a line; start(sum of the group's activations) puts in what the offset
//   of the stored weights (8 or 128) owes; fold() comes after every kFold lines.
#pragma once
#include <cstring>

#include "simd.h"

namespace coli::COLI_PATH {

COLI_INLINE int32_t load_i32(const void* p) {
  int32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

#if defined(__AVX512F__)

constexpr int kTile = 8;  // activation rows a tile

COLI_INLINE void store_i8(int8_t* p, i32x16 a) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(a.v)); }
COLI_INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }
COLI_INLINE uint16_t to_half(float x) { return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

COLI_INLINE __m512i dp(__m512i acc, __m512i w, const int8_t* x) {
  return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(load_i32(x)));
}

template <int Bits, int Rows> struct Dot;

template <int Rows> struct Dot<8, Rows> {
  static constexpr int kLines = 16, kInputs = 4, kFold = 16;
  using Weights = __m512i;
  __m512i a;
  static Weights weights(const uint8_t* p) { return _mm512_loadu_si512(p); }
  void start(int32_t sum) { a = _mm512_set1_epi32(-128 * sum); }
  void add(Weights w, const int8_t* x, int) { a = dp(a, w, x); }
  void fold() {}
  i32x16 sum() const { return {a}; }
};

template <int Rows> struct Dot<4, Rows> {
  static constexpr int kLines = 8, kInputs = 8, kFold = 8;
  struct Weights { __m512i low, high; };
  __m512i a;
  static Weights weights(const uint8_t* p) {
    __m512i v = _mm512_loadu_si512(p), m = _mm512_set1_epi8(15);
    return {_mm512_and_si512(v, m), _mm512_and_si512(_mm512_srli_epi16(v, 4), m)};
  }
  void start(int32_t sum) { a = _mm512_set1_epi32(-8 * sum); }
  void add(Weights w, const int8_t* x, int) { a = dp(dp(a, w.low, x), w.high, x + 4); }
  void fold() {}
  i32x16 sum() const { return {a}; }
};

// For one or two rows: high nibbles stay in place and their sum, a multiple of 16, is shifted once a group; four
// chains hide the latency.
struct DotFew {
  static constexpr int kLines = 8, kInputs = 8, kFold = 8;
  struct Weights { __m512i low, high; };
  __m512i a[2], b[2];
  static Weights weights(const uint8_t* p) {
    __m512i v = _mm512_loadu_si512(p);
    return {_mm512_and_si512(v, _mm512_set1_epi8(15)), _mm512_and_si512(v, _mm512_set1_epi8((char)0xf0))};
  }
  void start(int32_t sum) {
    a[0] = _mm512_set1_epi32(-8 * sum);
    a[1] = b[0] = b[1] = _mm512_setzero_si512();
  }
  void add(Weights w, const int8_t* x, int line) {
    a[line & 1] = dp(a[line & 1], w.low, x);
    b[line & 1] = dp(b[line & 1], w.high, x + 4);
  }
  void fold() {}
  i32x16 sum() const {
    return {_mm512_add_epi32(_mm512_add_epi32(a[0], a[1]), _mm512_srai_epi32(_mm512_add_epi32(b[0], b[1]), 4))};
  }
};
template <> struct Dot<4, 1> : DotFew {};
template <> struct Dot<4, 2> : DotFew {};

#elif defined(__AVX2__)

constexpr int kTile = 4;

COLI_INLINE void store_i8(int8_t* p, i32x16 a) {
  __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.a, a.b), 0xd8);
  _mm_storeu_si128((__m128i*)p, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
COLI_INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }
COLI_INLINE uint16_t to_half(float x) { return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

template <int Bits, int Rows> struct Dot;

// maddubs wants one unsigned side: |x| times w with the sign of x. Weights are within -127..127, so the 16-bit pairs
// do not saturate; the next pair could, so they go to 32 bits at once.
template <int Rows> struct Dot<8, Rows> {
  static constexpr int kLines = 16, kInputs = 4, kFold = 16;
  struct Weights { __m256i a, b; };
  __m256i a, b;
  static Weights weights(const uint8_t* p) {
    __m256i offset = _mm256_set1_epi8((char)0x80);
    return {_mm256_xor_si256(_mm256_loadu_si256((const __m256i*)p), offset),
            _mm256_xor_si256(_mm256_loadu_si256((const __m256i*)(p + 32)), offset)};
  }
  void start(int32_t) { a = b = _mm256_setzero_si256(); }
  void add(Weights w, const int8_t* x, int) {
    __m256i v = _mm256_set1_epi32(load_i32(x)), m = _mm256_abs_epi8(v), one = _mm256_set1_epi16(1);
    a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(m, _mm256_sign_epi8(w.a, v)), one));
    b = _mm256_add_epi32(b, _mm256_madd_epi16(_mm256_maddubs_epi16(m, _mm256_sign_epi8(w.b, v)), one));
  }
  void fold() {}
  i32x16 sum() const { return {a, b}; }
};

// 16-bit sums of 8 maddubs (4 lines) stay below 8 * 2 * 15 * 127 = 30480.
template <int Rows> struct Dot<4, Rows> {
  static constexpr int kLines = 8, kInputs = 8, kFold = 4;
  struct Weights { __m256i low_a, low_b, high_a, high_b; };
  __m256i a, b, wide_a, wide_b;
  static Weights weights(const uint8_t* p) {
    __m256i m = _mm256_set1_epi8(15);
    __m256i u = _mm256_loadu_si256((const __m256i*)p), v = _mm256_loadu_si256((const __m256i*)(p + 32));
    return {_mm256_and_si256(u, m), _mm256_and_si256(v, m), _mm256_and_si256(_mm256_srli_epi16(u, 4), m),
            _mm256_and_si256(_mm256_srli_epi16(v, 4), m)};
  }
  void start(int32_t sum) {
    wide_a = wide_b = _mm256_set1_epi32(-8 * sum);
    a = b = _mm256_setzero_si256();
  }
  void add(Weights w, const int8_t* x, int) {
    __m256i low = _mm256_set1_epi32(load_i32(x)), high = _mm256_set1_epi32(load_i32(x + 4));
    a = _mm256_add_epi16(a, _mm256_maddubs_epi16(w.low_a, low));
    b = _mm256_add_epi16(b, _mm256_maddubs_epi16(w.low_b, low));
    a = _mm256_add_epi16(a, _mm256_maddubs_epi16(w.high_a, high));
    b = _mm256_add_epi16(b, _mm256_maddubs_epi16(w.high_b, high));
  }
  void fold() {
    __m256i one = _mm256_set1_epi16(1);
    wide_a = _mm256_add_epi32(wide_a, _mm256_madd_epi16(a, one));
    wide_b = _mm256_add_epi32(wide_b, _mm256_madd_epi16(b, one));
    a = b = _mm256_setzero_si256();
  }
  i32x16 sum() const { return {wide_a, wide_b}; }
};

#else

constexpr int kTile = 4;

COLI_INLINE void store_i8(int8_t* p, i32x16 a) {
  for (int i = 0; i < 16; i++) p[i] = (int8_t)a.v[i];
}
COLI_INLINE void prefetch(const void*) {}

// Round to nearest, ties to even; the caller keeps |x| below 65520 and finite.
COLI_INLINE uint16_t to_half(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  uint32_t sign = bits >> 16 & 0x8000u, mag = bits & 0x7fffffffu;
  if (mag < 0x38800000u) {  // below 2^-14: multiples of 2^-24, which adding 0.5 rounds to
    float m;
    std::memcpy(&m, &mag, 4);
    m += 0.5f;
    std::memcpy(&mag, &m, 4);
    return (uint16_t)(sign | (mag - 0x3f000000u));
  }
  mag += 0xfffu + (mag >> 13 & 1u);
  return (uint16_t)(sign | (mag - 0x38000000u) >> 13);
}

template <int Bits, int Rows> struct Dot {
  static constexpr int kLines = Bits == 4 ? 8 : 16, kInputs = Bits == 4 ? 8 : 4, kFold = kLines;
  using Weights = const uint8_t*;
  int32_t a[16];
  static Weights weights(const uint8_t* p) { return p; }
  void start(int32_t sum) {
    for (int r = 0; r < 16; r++) a[r] = (Bits == 4 ? -8 : -128) * sum;
  }
  void add(Weights w, const int8_t* x, int) {
    for (int r = 0; r < 16; r++)
      for (int b = 0; b < 4; b++) {
        int v = w[4 * r + b];
        a[r] += Bits == 4 ? (v & 15) * x[b] + (v >> 4) * x[4 + b] : v * x[b];
      }
  }
  void fold() {}
  i32x16 sum() const { return iload(a); }
};

#endif

}  // namespace coli::COLI_PATH
