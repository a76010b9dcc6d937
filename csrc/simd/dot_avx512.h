// Sums by dpbusd on 512 bits: 16 rows an instruction.
#pragma once

namespace coli::COLI_PATH {

constexpr int kTile = 8;  // activation rows a tile

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

}  // namespace coli::COLI_PATH
