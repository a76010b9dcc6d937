// Sums by plain multiplication: the meaning of the others.
#pragma once

namespace coli::COLI_PATH {

constexpr int kTile = 4;

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

}  // namespace coli::COLI_PATH
