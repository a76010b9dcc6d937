// Sums by dpbusd on 256 bits: 8 rows an instruction.
#pragma once
#include "halves256.h"

namespace coli::COLI_PATH {

constexpr int kTile = 4;  // activation rows a tile

COLI_INLINE __m256i dp(__m256i acc, __m256i w, const int8_t* x) {
  return _mm256_dpbusd_avx_epi32(acc, w, _mm256_set1_epi32(load_i32(x)));
}

template <int Bits, int Rows> struct Dot {
  static constexpr int kLines = 8, kInputs = 8, kFold = 8;
  using Weights = Halves;
  __m256i a, b;
  static Weights weights(const uint8_t* group, int line) { return halves<Bits>(group, line); }
  void start(int32_t sum) { a = b = _mm256_set1_epi32(-kOffset[Bits] * sum); }
  void add(Weights w, const int8_t* x, int) {
    a = dp(dp(a, w.low_a, x), w.high_a, x + 4);
    b = dp(dp(b, w.low_b, x), w.high_b, x + 4);
  }
  void fold() {}
  i32x16 sum() const { return {a, b}; }
};

template <int Rows> struct Dot<8, Rows> {
  static constexpr int kLines = 16, kInputs = 4, kFold = 16;
  struct Weights { __m256i a, b; };
  __m256i a, b;
  static Weights weights(const uint8_t* group, int line) {
    return {line_at(group + 64 * line), line_at(group + 64 * line + 32)};
  }
  void start(int32_t sum) { a = b = _mm256_set1_epi32(-128 * sum); }
  void add(Weights w, const int8_t* x, int) { a = dp(a, w.a, x), b = dp(b, w.b, x); }
  void fold() {}
  i32x16 sum() const { return {a, b}; }
};

// For one or two rows: four chains hide the latency. High nibbles stay in place and their sum, a multiple of 16, is
// shifted once a group.
template <int Bits> struct DotFew {
  static constexpr int kLines = 8, kInputs = 8, kFold = 8;
  using Weights = Halves;
  __m256i low_a, low_b, high_a, high_b;
  static Weights weights(const uint8_t* group, int line) {
    if constexpr (Bits == 3) return halves<3>(group, line);
    __m256i low = _mm256_set1_epi8(15), high = _mm256_set1_epi8((char)0xf0);
    __m256i u = line_at(group + 64 * line), v = line_at(group + 64 * line + 32);
    return {_mm256_and_si256(u, low), _mm256_and_si256(v, low), _mm256_and_si256(u, high), _mm256_and_si256(v, high)};
  }
  void start(int32_t sum) {
    low_a = low_b = _mm256_set1_epi32(-kOffset[Bits] * sum);
    high_a = high_b = _mm256_setzero_si256();
  }
  void add(Weights w, const int8_t* x, int) {
    low_a = dp(low_a, w.low_a, x), high_a = dp(high_a, w.high_a, x + 4);
    low_b = dp(low_b, w.low_b, x), high_b = dp(high_b, w.high_b, x + 4);
  }
  void fold() {}
  static __m256i in_place(__m256i high) { return Bits == 4 ? _mm256_srai_epi32(high, 4) : high; }
  i32x16 sum() const { return {_mm256_add_epi32(low_a, in_place(high_a)), _mm256_add_epi32(low_b, in_place(high_b))}; }
};
template <> struct Dot<3, 1> : DotFew<3> {};
template <> struct Dot<3, 2> : DotFew<3> {};
template <> struct Dot<4, 1> : DotFew<4> {};
template <> struct Dot<4, 2> : DotFew<4> {};

}  // namespace coli::COLI_PATH
