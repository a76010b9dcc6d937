// Sums by maddubs and madd on 256 bits: 8 rows an instruction.
#pragma once
#include "halves256.h"

namespace coli::COLI_PATH {

constexpr int kTile = 4;

// 16-bit sums of 8 maddubs (4 lines) of int4 stay below 8 * 2 * 15 * 127 = 30480; of 4 of int3, whose weights are
// multiples of 4, below 4 * 2 * 28 * 127 = 28448.
template <int Bits, int Rows> struct Dot {
  static constexpr int kLines = 8, kInputs = 8, kFold = Bits == 3 ? 2 : 4;
  using Weights = Halves;
  __m256i a, b, wide_a, wide_b;
  static Weights weights(const uint8_t* group, int line) { return halves<Bits>(group, line); }
  void start(int32_t sum) {
    wide_a = wide_b = _mm256_set1_epi32(-kOffset[Bits] * sum);
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

// maddubs wants one unsigned side: |x| times w with the sign of x. Weights are within -127..127, so the 16-bit pairs
// do not saturate; the next pair could, so they go to 32 bits at once.
template <int Rows> struct Dot<8, Rows> {
  static constexpr int kLines = 16, kInputs = 4, kFold = 16;
  struct Weights { __m256i a, b; };
  __m256i a, b;
  static Weights weights(const uint8_t* group, int line) {
    const uint8_t* p = group + 64 * line;
    __m256i offset = _mm256_set1_epi8((char)0x80);
    return {_mm256_xor_si256(line_at(p), offset), _mm256_xor_si256(line_at(p + 32), offset)};
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

}  // namespace coli::COLI_PATH
