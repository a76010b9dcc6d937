// Sums by dpbusd on 512 bits: 16 rows an instruction.
#pragma once

namespace coli::COLI_PATH {

constexpr int kTile = 8;  // activation rows a tile

COLI_INLINE __m512i dp(__m512i acc, __m512i w, const int8_t* x) {
  return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(load_i32(x)));
}

// Inputs 0..3 and 4..7 of a line.
struct Halves { __m512i low, high; };

COLI_INLINE __m512i shifted(__m512i v, int right) {
  return right < 0 ? _mm512_slli_epi16(v, (unsigned)-right) : _mm512_srli_epi16(v, (unsigned)right);
}
COLI_INLINE __m512i three(const uint8_t* group, int line, int half) {
  ThreeBits t = three_bits(line, half);
  __m512i low = shifted(_mm512_loadu_si512(group + t.low_line), t.low);
  __m512i high = shifted(_mm512_loadu_si512(group + t.high_line), t.high);
  high = _mm512_and_si512(high, _mm512_set1_epi8(16));
  return _mm512_ternarylogic_epi32(low, _mm512_set1_epi8(12), high, 0xea);  // low & 12 | high
}
template <int Bits> COLI_INLINE Halves halves(const uint8_t* group, int line) {
  if constexpr (Bits == 3) return {three(group, line, 0), three(group, line, 1)};
  __m512i v = _mm512_loadu_si512(group + 64 * line), m = _mm512_set1_epi8(15);
  return {_mm512_and_si512(v, m), _mm512_and_si512(_mm512_srli_epi16(v, 4), m)};
}

template <int Bits, int Rows> struct Dot {
  static constexpr int kLines = 8, kInputs = 8, kFold = 8;
  using Weights = Halves;
  __m512i a;
  static Weights weights(const uint8_t* group, int line) { return halves<Bits>(group, line); }
  void start(int32_t sum) { a = _mm512_set1_epi32(-kOffset[Bits] * sum); }
  void add(Weights w, const int8_t* x, int) { a = dp(dp(a, w.low, x), w.high, x + 4); }
  void fold() {}
  i32x16 sum() const { return {a}; }
};

template <int Rows> struct Dot<8, Rows> {
  static constexpr int kLines = 16, kInputs = 4, kFold = 16;
  using Weights = __m512i;
  __m512i a;
  static Weights weights(const uint8_t* group, int line) { return _mm512_loadu_si512(group + 64 * line); }
  void start(int32_t sum) { a = _mm512_set1_epi32(-128 * sum); }
  void add(Weights w, const int8_t* x, int) { a = dp(a, w, x); }
  void fold() {}
  i32x16 sum() const { return {a}; }
};

// For one or two rows: four chains hide the latency. High nibbles stay in place and their sum, a multiple of 16, is
// shifted once a group.
template <int Bits> struct DotFew {
  static constexpr int kLines = 8, kInputs = 8, kFold = 8;
  using Weights = Halves;
  __m512i a[2], b[2];
  static Weights weights(const uint8_t* group, int line) {
    if constexpr (Bits == 3) return halves<3>(group, line);
    __m512i v = _mm512_loadu_si512(group + 64 * line);
    return {_mm512_and_si512(v, _mm512_set1_epi8(15)), _mm512_and_si512(v, _mm512_set1_epi8((char)0xf0))};
  }
  void start(int32_t sum) {
    a[0] = _mm512_set1_epi32(-kOffset[Bits] * sum);
    a[1] = b[0] = b[1] = _mm512_setzero_si512();
  }
  void add(Weights w, const int8_t* x, int line) {
    a[line & 1] = dp(a[line & 1], w.low, x);
    b[line & 1] = dp(b[line & 1], w.high, x + 4);
  }
  void fold() {}
  i32x16 sum() const {
    __m512i high = _mm512_add_epi32(b[0], b[1]);
    return {_mm512_add_epi32(_mm512_add_epi32(a[0], a[1]), Bits == 4 ? _mm512_srai_epi32(high, 4) : high)};
  }
};
template <> struct Dot<3, 1> : DotFew<3> {};
template <> struct Dot<3, 2> : DotFew<3> {};
template <> struct Dot<4, 1> : DotFew<4> {};
template <> struct Dot<4, 2> : DotFew<4> {};

}  // namespace coli::COLI_PATH
