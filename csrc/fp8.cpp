// Products with e4m3 weights, where they lie. A weight is code x scale, rounded to fp32; from there on order and bits are
// those of fp32 weights (dense.cpp). A block of 128 is a whole number of steps of 16 lanes, so each step has one scale.
// One token: decoded in registers. More: 128 columns of a tile's rows are decoded once and multiplied with each.
#include "fp8.h"

#include <cstring>

#include "simd/e4m3.h"

namespace coli::COLI_PATH {
namespace {

constexpr int kSteps = kScaled / 16;

COLI_INLINE int length(int64_t k, int64_t cols) { return (int)(cols - k < kScaled ? cols - k : kScaled); }

// Times 256, as e4m3_256th wants it: infinite from 2^120 on.
float scale_of(const DenseWeights& w, int64_t row, int64_t k) {
  int64_t at = (w.scales.first + row) / kScaled * ceil_div(w.cols, kScaled) + k / kScaled;
  float s;
  if (w.dtype == Dtype::e4m3) {
    std::memcpy(&s, w.scales.data + 4 * at, 4);
  } else {
    uint32_t e = w.scales.data[at], bits = e == 255 ? 0x7fc00000u : e ? e << 23 : 0x400000u;
    std::memcpy(&s, &bits, 4);
  }
  return s * 256.f;
}

// A row of weights, 128 at most of them at a time.
struct Row {
  const DenseWeights* w;
  int64_t row;
  NanCodes nan = {};

  __attribute__((always_inline)) const uint8_t* codes(int64_t k) const { return w->data + row * w->cols + k; }
  __attribute__((always_inline)) f32x16 scale(int64_t k) const { return set1(scale_of(*w, row, k)); }
  // Looks for NaN among the n codes from k on.
  __attribute__((always_inline)) void see(int64_t k, int n) {
    int i = 0;
    for (; i + 64 <= n; i += 64) nan.see(codes(k) + i);
    if (i == n) return;
    uint8_t padded[64] = {};
    std::memcpy(padded, codes(k) + i, (size_t)(n - i));
    nan.see(padded);
  }
};

// The first n < 16, zeros after.
COLI_INLINE f32x16 first_codes(const uint8_t* p, int n) {
  alignas(16) uint8_t padded[16] = {};
  std::memcpy(padded, p, (size_t)n);
  return e4m3_256th(padded);
}

COLI_INLINE float or_nan(float sum, const Row& row) { return row.nan.any() ? __builtin_nanf("") : sum; }

// out[r] = row r times x
template <int Rows> void one_token(Row* rows, int64_t cols, const float* x, float* out) {
  f32x16 acc[Rows], scale[Rows];
  for (int r = 0; r < Rows; r++) acc[r] = zero();
  for (int64_t k = 0; k < cols; k += kScaled) {
    int n = length(k, cols), i = 0;
    for (int r = 0; r < Rows; r++) {
      scale[r] = rows[r].scale(k);
      rows[r].see(k, n);
    }
    for (; i + 16 <= n; i += 16) {
      f32x16 v = load(x + k + i);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; r++) acc[r] = fma(mul(e4m3_256th(rows[r].codes(k) + i), scale[r]), v, acc[r]);
    }
    if (i == n) continue;
    f32x16 v = load_first(x + k + i, n - i);
    for (int r = 0; r < Rows; r++) acc[r] = fma(mul(first_codes(rows[r].codes(k) + i, n - i), scale[r]), v, acc[r]);
  }
  for (int r = 0; r < Rows; r++) out[r] = or_nan(reduce_add(acc[r]), rows[r]);
}

using Block = float[kTileRows][kScaled];
using Sums = f32x16[kTileRows];

// The weights from k on; the last step padded with zeros.
void decode(Row& row, int64_t k, int n, float* out) {
  f32x16 scale = row.scale(k);
  int i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, mul(e4m3_256th(row.codes(k) + i), scale));
  if (i < n) store(out + i, mul(first_codes(row.codes(k) + i, n - i), scale));
  row.see(k, n);
}

// sums[t][r] += the n columns of row r times those of x[t] from k on
template <int Rows, int Tokens> void add_block(const Block& w, int n, const float* const* x, int64_t k, Sums* sums) {
  f32x16 acc[Rows][Tokens];
  for (int r = 0; r < Rows; r++)
    for (int t = 0; t < Tokens; t++) acc[r][t] = sums[t][r];
  auto step = [&](int i, auto activations) {
    f32x16 v[Tokens];
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; t++) v[t] = activations(x[t] + k + i);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; r++) {
      f32x16 row = load(w[r] + i);
#pragma GCC unroll 4
      for (int t = 0; t < Tokens; t++) acc[r][t] = fma(row, v[t], acc[r][t]);
    }
  };
  int i = 0;
  for (; i + 16 <= n; i += 16) step(i, [](const float* p) { return load(p); });
  if (i < n) step(i, [=](const float* p) { return load_first(p, n - i); });
  for (int r = 0; r < Rows; r++)
    for (int t = 0; t < Tokens; t++) sums[t][r] = acc[r][t];
}

template <int Rows> void many_tokens(Row* rows, int64_t cols, const float* const* x, int tokens,
                                     float (*out)[kTileRows]) {
  alignas(64) Block block;
  Sums sums[kFp8Tokens];
  for (int t = 0; t < tokens; t++)
    for (int r = 0; r < Rows; r++) sums[t][r] = zero();
  for (int64_t k = 0; k < cols; k += kScaled) {
    int n = length(k, cols), t = 0;
    for (int r = 0; r < Rows; r++) decode(rows[r], k, n, block[r]);
    for (; t + kTileTokens <= tokens; t += kTileTokens) add_block<Rows, kTileTokens>(block, n, x + t, k, sums + t);
    for (; t < tokens; t++) add_block<Rows, 1>(block, n, x + t, k, sums + t);
  }
  for (int t = 0; t < tokens; t++)
    for (int r = 0; r < Rows; r++) out[t][r] = or_nan(reduce_add(sums[t][r]), rows[r]);
}

template <int Rows> void rows_of(const DenseWeights& w, int64_t row, const float* const* x, int tokens,
                                 float (*out)[kTileRows]) {
  Row rows[Rows];
  for (int r = 0; r < Rows; r++) rows[r] = {&w, row + r};
  if (tokens == 1) one_token<Rows>(rows, w.cols, x[0], out[0]);
  else many_tokens<Rows>(rows, w.cols, x, tokens, out);
}

// Puts NaN where it belongs; the first element that is not finite, or -1.
int64_t first_bad(const uint8_t* codes, int n, float* block) {
  int bad = -1;
  for (int i = n - 1; i >= 0; i--) {
    if ((codes[i] & 0x7f) == 0x7f) block[i] = __builtin_nanf("");
    if (!__builtin_isfinite(block[i])) bad = i;
  }
  return bad;
}

int64_t row(const DenseWeights& w, int64_t at, float* out) {
  Row row{&w, at};
  int64_t bad = -1;
  for (int64_t k = 0; k < w.cols; k += kScaled) {
    alignas(64) float block[kScaled];
    int n = length(k, w.cols);
    decode(row, k, n, block);
    int64_t found = first_bad(row.codes(k), n, block);
    if (bad < 0 && found >= 0) bad = k + found;
    if (out) std::memcpy(out + k, block, sizeof(float) * (size_t)n);
  }
  return bad;
}

}  // namespace

void fp8_tile(const DenseWeights& w, int64_t row, int rows, const float* const* x, int tokens,
              float (*out)[kTileRows]) {
  if (rows == kTileRows) return rows_of<kTileRows>(w, row, x, tokens, out);
  for (int r = 0; r < rows; r++) {
    float one[kFp8Tokens][kTileRows];
    rows_of<1>(w, row + r, x, tokens, one);
    for (int t = 0; t < tokens; t++) out[t][r] = one[t][0];
  }
}

extern const Fp8Kernels fp8_kernels;
const Fp8Kernels fp8_kernels{row};

}  // namespace coli::COLI_PATH
