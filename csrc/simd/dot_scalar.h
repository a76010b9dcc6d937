// Sums by plain multiplication: the meaning of the others.
#pragma once

namespace coli::COLI_PATH {

constexpr int kTile = 4;

template <int Bits, int Rows> struct Dot {
  static constexpr int kLines = Bits == 8 ? 16 : 8, kInputs = Bits == 8 ? 4 : 8, kFold = kLines;
  struct Weights { const uint8_t* group; int line; };
  int32_t a[16];
  static Weights weights(const uint8_t* group, int line) { return {group, line}; }
  void start(int32_t sum) {
    for (int r = 0; r < 16; r++) a[r] = -kOffset[Bits] * sum;
  }
  // Not inlined: sixteen times in one function, g++ takes a minute over it, and the code is no faster.
  __attribute__((noinline)) void add(Weights w, const int8_t* x, int) {
    for (int r = 0; r < 16; r++)
      for (int b = 0; b < 4; b++) {
        if constexpr (Bits == 3) {
          for (int half = 0; half < 2; half++) a[r] += three(w, 4 * r + b, half) * x[4 * half + b];
        } else {
          int v = w.group[64 * w.line + 4 * r + b];
          a[r] += Bits == 4 ? (v & 15) * x[b] + (v >> 4) * x[4 + b] : v * x[b];
        }
      }
  }
  static int three(Weights w, int byte, int half) {
    ThreeBits t = three_bits(w.line, half);
    int low = w.group[t.low_line + byte] >> (t.low + 2) & 3, high = w.group[t.high_line + byte] >> (t.high + 4) & 1;
    return low << 2 | high << 4;
  }
  void fold() {}
  i32x16 sum() const { return iload(a); }
};

}  // namespace coli::COLI_PATH
