// Integer sums of products for 16 rows at once: a line of packed weights times the same inputs of each activation row.
// The sums are exact, so every path has the same.
//   Dot<bits, rows in the tile> is one activation row's accumulator over a group of 64 inputs:
//   kLines lines a group, kInputs activations a line; start(sum of the group's activations) puts in what the offset
//   of the stored weights (15, 8 or 128) owes; fold() comes after every kFold lines. Of int3, whose codes u stand for
//   4u - 15, a line is a part of three in memory: weights() takes the group and the number of the line.
//   Dots<bits, rows> is that of a whole tile, which a path may have in a form of its own.
#pragma once
#include <cstring>

#include "simd.h"

namespace coli::COLI_PATH {

COLI_INLINE int32_t load_i32(const void* p) {
  int32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

// What a code of zero stands for, negated.
constexpr int kOffset[] = {0, 0, 0, 15, 8, 0, 0, 0, 128};

// Where int3 has the two inputs of a half (0, 1) of line 0..7, which is 4 of its 8: bits to shift right so that the
// low bits come to lie at 2 and 3, and the high one at 4.
struct ThreeBits {
  int low_line, high_line, low, high;
};
COLI_INLINE ThreeBits three_bits(int line, int half) {
  return {64 * (line / 2), 256 + 64 * (line / 4), 4 * (line % 2) + 2 * half - 2, 2 * (line % 4) + half - 4};
}

}  // namespace coli::COLI_PATH

#if defined(__AVX512F__)
#include "dot_avx512.h"
#elif defined(__AVXVNNI__)
#include "dot_avxvnni.h"
#elif defined(__AVX2__)
#include "dot_avx2.h"
#elif defined(__ARM_FEATURE_DOTPROD)
#include "dot_neon.h"
#else
#include "dot_scalar.h"
#endif

namespace coli::COLI_PATH {

template <class D, int Rows> struct DotEach {
  static constexpr int kLines = D::kLines, kInputs = D::kInputs, kFold = D::kFold;
  using Weights = typename D::Weights;
  D dot[Rows];
  static Weights weights(const uint8_t* group, int line) { return D::weights(group, line); }
  void start(int row, int32_t sum) { dot[row].start(sum); }
  // The activations of row t begin at rows[t] + at.
  void add(const Weights& w, const uint8_t* const* rows, int64_t at, int line) {
#pragma GCC unroll 8
    for (int t = 0; t < Rows; t++) dot[t].add(w, (const int8_t*)rows[t] + at, line);
  }
  void fold() {
#pragma GCC unroll 8
    for (int t = 0; t < Rows; t++) dot[t].fold();
  }
  i32x16 sum(int row) const { return dot[row].sum(); }
};

#if defined(__ARM_FEATURE_MATMUL_INT8)
template <int Bits, int Rows> struct Dots : DotPairs<Bits, Rows> {};
template <int Bits> struct Dots<Bits, 1> : DotEach<Dot<Bits, 1>, 1> {};
#else
template <int Bits, int Rows> struct Dots : DotEach<Dot<Bits, Rows>, Rows> {};
#endif

}  // namespace coli::COLI_PATH
