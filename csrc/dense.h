// Products of fp32 activations with weights that are brought to fp32 where they lie. One output element is a sum in 16
// lanes: lane l adds elements l, l + 16, ... ascending with fused multiply-adds (the tail padded with zeros), then
// reduce_add.
//
// A format W has kTokens, how many tokens take turns with weights once decoded, and
//   multiply(w, row, rows, x, tokens, out)  out[t][r] = row `row + r` times x[t]; rows <= kTileRows, tokens <= kTokens
//   row(w, row, out)                        as FormatKernels::row
#pragma once
#include "quantize.h"

namespace coli::COLI_PATH {

// Outputs held in registers at once: weight rows x tokens.
constexpr int kTileRows = kRegisters >= 32 ? 4 : kRegisters >= 8 ? 2 : 1, kTileTokens = kTileRows;

namespace {

// Of n decoded weights, zeros after.
COLI_INLINE bool finite(const float* block, int n) {
  i32x16 most = izero();
  for (int i = 0; i < n; i += 16) most = imax(most, iand(as_int(load(block + i)), iset1(0x7fffffff)));
  return reduce_max(most) < 0x7f800000;
}

// put(token, row, value) for rows [row0, row1) and tokens [t0, t1), x_of(token) = its activations.
template <class W, class X, class Put>
void product(const Weights& w, int64_t row0, int64_t row1, int64_t t0, int64_t t1, X x_of, Put put) {
  for (int64_t row = row0; row < row1; row += kTileRows) {
    int rows = (int)(row1 - row < kTileRows ? row1 - row : kTileRows);
    for (int64_t t = t0; t < t1; t += W::kTokens) {
      int tokens = (int)(t1 - t < W::kTokens ? t1 - t : W::kTokens);
      const float* x[W::kTokens];
      for (int i = 0; i < tokens; i++) x[i] = x_of(t + i);
      float out[W::kTokens][kTileRows];
      W::multiply(w, row, rows, x, tokens, out);
      for (int i = 0; i < tokens; i++)
        for (int r = 0; r < rows; r++) put(t + i, row + r, out[i][r]);
    }
  }
}

template <class W> void dense_matmul(const Weights& w, const Inputs& inputs, const Part& part, float* y) {
  product<W>(w, part.row0, part.row1, part.t0, part.t1,
             [&](int64_t t) { return inputs.x + (t * part.token_step + part.token_first) * w.cols; },
             [&](int64_t t, int64_t row, float v) { y[t * w.rows + row] = v; });
}

// Gate (0), up (1) or down (2) of an expert.
COLI_INLINE Weights part_of(const MoeArgs& a, int64_t expert, int i) {
  Weights w{(const uint8_t*)a.parts[3 * expert + i], a.format, a.inner, a.hidden};
  if (i == 2) w.rows = a.hidden, w.cols = a.inner;
  if (parts_of(a.format) > 1) w.scales = {(const uint8_t*)a.scales[3 * expert + i], i == 1 ? a.up_first : 0};
  return w;
}

template <class W> void dense_gate_up(const MoeArgs& a, int64_t expert, int64_t group) {
  constexpr int kPairs = 16;  // at a time
  int64_t row0 = group * 64, row1 = row0 + 64 < a.inner ? row0 + 64 : a.inner;
  Weights gates = part_of(a, expert, 0), ups = part_of(a, expert, 1);
  auto x_of = [&](int64_t p) { return a.x + a.pair_row[p] * a.hidden; };
  for (int64_t p = a.pair_start[expert], end = a.pair_start[expert + 1]; p < end; p += kPairs) {
    int64_t stop = p + kPairs < end ? p + kPairs : end;
    alignas(64) float gate[kPairs][64], up[kPairs][64];
    product<W>(gates, row0, row1, p, stop, x_of, [&](int64_t t, int64_t row, float v) { gate[t - p][row - row0] = v; });
    product<W>(ups, row0, row1, p, stop, x_of, [&](int64_t t, int64_t row, float v) { up[t - p][row - row0] = v; });
    for (int64_t t = p; t < stop; t++)
      for (int64_t row = row0; row < row1; row += 16) {
        int n = (int)(row1 - row < 16 ? row1 - row : 16);
        f32x16 g = load_n(gate[t - p] + (row - row0), n), u = load_n(up[t - p] + (row - row0), n);
        store_n(a.inner_f32 + t * a.inner + row, swiglu(g, u, set1(a.limit)), n);
      }
  }
}

COLI_INLINE float fma_one(float a, float b, float c) {
  float out[1];
  store_first(out, fma(set1(a), set1(b), set1(c)), 1);
  return out[0];
}

template <class W> void dense_down(const MoeArgs& a, int64_t expert, int64_t block0, int64_t block1) {
  Weights w = part_of(a, expert, 2);
  int64_t row1 = block1 * kRows < a.hidden ? block1 * kRows : a.hidden;
  product<W>(w, block0 * kRows, row1, a.pair_start[expert], a.pair_start[expert + 1],
             [&](int64_t p) { return a.inner_f32 + p * a.inner; },
             [&](int64_t p, int64_t row, float v) {
               if (a.pair_out) a.y[a.pair_out[p] * a.hidden + row] = v;
               else {
                 float* y = a.y + a.pair_row[p] * a.hidden + row;
                 *y = fma_one(a.pair_weight[p], v, *y);
               }
             });
}

template <class W>
constexpr FormatKernels kDense{false, dense_matmul<W>, dense_gate_up<W>, dense_down<W>, W::row};

}  // namespace
}  // namespace coli::COLI_PATH
