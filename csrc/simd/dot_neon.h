// Sums by sdot (4 rows and one activation row an instruction) and, where there is i8mm, by smmla (2 rows and 2
// activation rows). A line of int4 is four registers of 4 rows each.
#pragma once

namespace coli::COLI_PATH {

constexpr int kTile = 4;  // activation rows a tile

// 4 rows x 4 inputs a register: inputs 0..3 (and 4..7) of a line, as signed numbers.
struct Line {
  int8x16_t low[4], high[4];
};
COLI_INLINE Line nibbles(const uint8_t* p) {
  Line l;
  for (int r = 0; r < 4; r++) {
    uint8x16_t v = vld1q_u8(p + 16 * r);
    l.low[r] = vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15)));
    l.high[r] = vreinterpretq_s8_u8(vshrq_n_u8(v, 4));
  }
  return l;
}
// The same of int3: 4 times the code.
COLI_INLINE uint8x16_t three(const uint8_t* group, const ThreeBits& t) {
  uint8x16_t low = vshlq_u8(vld1q_u8(group + t.low_line), vdupq_n_s8((int8_t)-t.low));
  uint8x16_t high = vshlq_u8(vld1q_u8(group + t.high_line), vdupq_n_s8((int8_t)-t.high));
  return vorrq_u8(vandq_u8(low, vdupq_n_u8(12)), vandq_u8(high, vdupq_n_u8(16)));
}
COLI_INLINE Line threes(const uint8_t* group, int line) {
  Line l;
  for (int r = 0; r < 4; r++) {
    l.low[r] = vreinterpretq_s8_u8(three(group + 16 * r, three_bits(line, 0)));
    l.high[r] = vreinterpretq_s8_u8(three(group + 16 * r, three_bits(line, 1)));
  }
  return l;
}
// Two lines of int8: 8 inputs.
COLI_INLINE Line bytes(const uint8_t* p) {
  Line l;
  for (int r = 0; r < 4; r++) {
    l.low[r] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p + 16 * r), vdupq_n_u8(128)));
    l.high[r] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p + 64 + 16 * r), vdupq_n_u8(128)));
  }
  return l;
}

template <int Bits> COLI_INLINE Line line_of(const uint8_t* group, int line) {
  if constexpr (Bits == 3) return threes(group, line);
  return Bits == 4 ? nibbles(group + 64 * line) : bytes(group + 128 * line);
}
// bytes() has taken the offset of int8 off.
template <int Bits> constexpr int kOwed = Bits == 8 ? 0 : -kOffset[Bits];

template <int Bits, int Rows> struct Dot {
  static constexpr int kLines = 8, kInputs = 8, kFold = 8;
  using Weights = Line;
  int32x4_t a[4];
  static Line weights(const uint8_t* group, int line) { return line_of<Bits>(group, line); }
  void start(int32_t sum) {
    for (int r = 0; r < 4; r++) a[r] = vdupq_n_s32(kOwed<Bits> * sum);
  }
  void add(const Line& w, const int8_t* x, int) {
    int8x8_t v = vld1_s8(x);
    for (int r = 0; r < 4; r++) a[r] = vdotq_lane_s32(vdotq_lane_s32(a[r], w.low[r], v, 0), w.high[r], v, 1);
  }
  void fold() {}
  i32x16 sum() const { return {{a[0], a[1], a[2], a[3]}}; }
};

#if defined(__ARM_FEATURE_MATMUL_INT8)

// Weight rows 2i and 2i + 1, 8 inputs each, times two activation rows: a 2 x 2 block of sums.
template <int Bits, int Rows> struct DotPairs {
  static constexpr int kLines = 8, kInputs = 8, kFold = 8;
  struct Weights { int8x16_t v[8]; };
  int32x4_t a[Rows / 2][8];
  static Weights weights(const uint8_t* group, int line) {
    Line l = line_of<Bits>(group, line);
    Weights w;
    for (int r = 0; r < 4; r++) {
      int32x4_t low = vreinterpretq_s32_s8(l.low[r]), high = vreinterpretq_s32_s8(l.high[r]);
      w.v[2 * r] = vreinterpretq_s8_s32(vzip1q_s32(low, high));
      w.v[2 * r + 1] = vreinterpretq_s8_s32(vzip2q_s32(low, high));
    }
    return w;
  }
  void start(int row, int32_t sum) {
    int32_t owed = kOwed<Bits> * sum;
    for (int i = 0; i < 8; i++) {
      if (row % 2 == 0) a[row / 2][i] = vdupq_n_s32(owed);
      else a[row / 2][i] = vtrn1q_s32(a[row / 2][i], vdupq_n_s32(owed));
    }
  }
  void add(const Weights& w, const uint8_t* const* rows, int64_t at, int) {
    for (int p = 0; p < Rows / 2; p++) {
      int8x16_t x = vcombine_s8(vld1_s8((const int8_t*)rows[2 * p] + at), vld1_s8((const int8_t*)rows[2 * p + 1] + at));
      for (int i = 0; i < 8; i++) a[p][i] = vmmlaq_s32(a[p][i], w.v[i], x);
    }
  }
  void fold() {}
  i32x16 sum(int row) const {
    const int32x4_t* s = a[row / 2];
    return each<i32x16>([=](int i) {
      return row % 2 == 0 ? vuzp1q_s32(s[2 * i], s[2 * i + 1]) : vuzp2q_s32(s[2 * i], s[2 * i + 1]);
    });
  }
};

#endif

}  // namespace coli::COLI_PATH
