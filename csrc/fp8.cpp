// Products with e4m3 weights, where they lie. A weight is code x scale, rounded to fp32; from there on order and bits are
// those of fp32 weights (dense.h). A block of 128 is a whole number of steps of 16 lanes, so each step has one scale.
// One token: decoded in registers. More: 128 columns of a tile's rows are decoded once and multiplied with each.
#include "dense.h"

#include <cstring>

#include "simd/e4m3.h"

namespace coli::COLI_PATH {
namespace {

constexpr int kTokens = 16;  // that take turns with weights once decoded

COLI_INLINE float scale_at(const uint8_t* p, Format format) {
  uint32_t bits = *p;
  if (format == Format::e4m3) std::memcpy(&bits, p, 4);
  else if (format == Format::e4m3_bf16) bits = (bits | (uint32_t)p[1] << 8) << 16;
  else bits = bits == 255 ? 0x7fc00000u : bits ? bits << 23 : 0x400000u;
  float s;
  std::memcpy(&s, &bits, 4);
  return s;
}

// A row of weights, 128 at most of them at a time.
struct Row {
  const uint8_t *codes, *scales;
  Format format;
  NanCodes nan;

  // Times 256, as e4m3_256th wants it: infinite from 2^120 on.
  __attribute__((always_inline)) f32x16 scale(int64_t k) const {
    return set1(scale_at(scales + k / kScaled * scale_bytes(format), format) * 256.f);
  }
  // Looks for NaN among the n codes from k on.
  __attribute__((always_inline)) void see(int64_t k, int n) {
    int i = 0;
    for (; i + 64 <= n; i += 64) nan.see(codes + k + i);
    if (i == n) return;
    uint8_t padded[64] = {};
    std::memcpy(padded, codes + k + i, (size_t)(n - i));
    nan.see(padded);
  }
};

Row row_of(const Weights& w, int64_t row) {
  int64_t scales = (w.scales.first + row) / kScaled * ceil_div(w.cols, kScaled);
  return {w.data + row * w.cols, w.scales.data + scales * scale_bytes(w.format), w.format, {}};
}

// The first n <= 16, zeros after.
COLI_INLINE f32x16 first_codes(const uint8_t* p, int n) {
  if (n == 16) return e4m3_256th(p);
  alignas(16) uint8_t padded[16] = {};
  std::memcpy(padded, p, (size_t)n);
  return e4m3_256th(padded);
}

COLI_INLINE float or_nan(float sum, const Row& row) { return row.nan.any() ? __builtin_nanf("") : sum; }

// acc[r] += n <= 16 weights of row r from k on times those of x
template <int Rows> COLI_INLINE void add_step(const Row* rows, int64_t k, int n, const f32x16* scale, const float* x,
                                              f32x16* acc) {
  f32x16 v = n == 16 ? load(x + k) : load_first(x + k, n);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; r++) acc[r] = fma(mul(first_codes(rows[r].codes + k, n), scale[r]), v, acc[r]);
}

// out[r] = row r times x
template <int Rows> void one_token(Row* rows, int64_t cols, const float* x, float* out) {
  f32x16 acc[Rows], scale[Rows];
  for (int r = 0; r < Rows; r++) acc[r] = zero();
  int64_t k = 0;
  for (; k + kScaled <= cols; k += kScaled) {
#pragma GCC unroll 4
    for (int r = 0; r < Rows; r++) {
      scale[r] = rows[r].scale(k);
      rows[r].see(k, kScaled);
      for (int b = 0; b < kScaled; b += 64) prefetch(rows[r].codes + Rows * cols + k + b);  // of the next tile
    }
    for (int i = 0; i < kScaled; i += 16) add_step<Rows>(rows, k + i, 16, scale, x, acc);
  }
  if (k < cols) {
    for (int r = 0; r < Rows; r++) scale[r] = rows[r].scale(k), rows[r].see(k, (int)(cols - k));
    for (; k < cols; k += 16) add_step<Rows>(rows, k, (int)(cols - k < 16 ? cols - k : 16), scale, x, acc);
  }
  for (int r = 0; r < Rows; r++) out[r] = or_nan(reduce_add(acc[r]), rows[r]);
}

using Block = float[kTileRows][kScaled];
using Sums = f32x16[kTileRows];

// The weights from k on; the last step padded with zeros.
void decode(Row& row, int64_t k, int n, float* out) {
  f32x16 scale = row.scale(k);
  for (int i = 0; i < n; i += 16)
    store(out + i, mul(first_codes(row.codes + k + i, n - i < 16 ? n - i : 16), scale));
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
  Sums sums[kTokens];
  for (int t = 0; t < tokens; t++)
    for (int r = 0; r < Rows; r++) sums[t][r] = zero();
  for (int64_t k = 0; k < cols; k += kScaled) {
    int n = (int)(cols - k < kScaled ? cols - k : kScaled), t = 0;
    for (int r = 0; r < Rows; r++) decode(rows[r], k, n, block[r]);
    for (; t + kTileTokens <= tokens; t += kTileTokens) add_block<Rows, kTileTokens>(block, n, x + t, k, sums + t);
    for (; t < tokens; t++) add_block<Rows, 1>(block, n, x + t, k, sums + t);
  }
  for (int t = 0; t < tokens; t++)
    for (int r = 0; r < Rows; r++) out[t][r] = or_nan(reduce_add(sums[t][r]), rows[r]);
}

template <int Rows> void tile(const Weights& w, int64_t row, const float* const* x, int tokens,
                              float (*out)[kTileRows]) {
  Row rows[Rows];
  for (int r = 0; r < Rows; r++) rows[r] = row_of(w, row + r);
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

int64_t decode_row(const Weights& w, int64_t at, float* out) {
  Row row = row_of(w, at);
  int64_t bad = -1;
  for (int64_t k = 0; k < w.cols; k += kScaled) {
    alignas(64) float block[kScaled];
    int n = (int)(w.cols - k < kScaled ? w.cols - k : kScaled);
    decode(row, k, n, block);
    if (row.nan.any() || !finite(block, n)) {
      int64_t found = first_bad(row.codes + k, n, block);
      if (bad < 0 && found >= 0) bad = k + found;
    }
    if (out) std::memcpy(out + k, block, sizeof(float) * (size_t)n);
  }
  return bad;
}

struct E4m3 {
  static constexpr int kTokens = ::coli::COLI_PATH::kTokens;

  static void multiply(const Weights& w, int64_t row, int rows, const float* const* x, int tokens,
                       float (*out)[kTileRows]) {
    if (rows == kTileRows) return tile<kTileRows>(w, row, x, tokens, out);
    for (int r = 0; r < rows; r++) {
      float one[kTokens][kTileRows];
      tile<1>(w, row + r, x, tokens, one);
      for (int t = 0; t < tokens; t++) out[t][r] = one[t][0];
    }
  }

  static int64_t row(const Weights& w, int64_t row, float* out) { return decode_row(w, row, out); }
};

}  // namespace

extern const FormatKernels e4m3_kernels;
const FormatKernels e4m3_kernels = kDense<E4m3>;

}  // namespace coli::COLI_PATH
