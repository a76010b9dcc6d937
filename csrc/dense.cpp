// Products with bf16, fp16 and fp32 weights and fp32 activations. One output element is a sum in 16 lanes: lane l
// adds elements l, l + 16, ... ascending with fused multiply-adds (the tail padded with zeros), then reduce_add.
#include "quantize.h"

namespace coli::COLI_PATH {
namespace {

// Outputs held in registers at once: weight rows x tokens.
constexpr int kTileRows = kRegisters >= 32 ? 4 : kRegisters >= 8 ? 2 : 1, kTileTokens = kTileRows;

struct F32 {
  static constexpr int kBytes = 4;
  static f32x16 get(const uint8_t* p) { return load((const float*)(const void*)p); }
};
struct F16 {
  static constexpr int kBytes = 2;
  static f32x16 get(const uint8_t* p) { return load_f16(p); }
};
struct BF16 {
  static constexpr int kBytes = 2;
  static f32x16 get(const uint8_t* p) { return load_bf16(p); }
};

template <class W> f32x16 first(const uint8_t* p, int n) {
  alignas(64) uint8_t padded[64] = {};
  std::memcpy(padded, p, (size_t)(n * W::kBytes));
  return W::get(padded);
}

// out[t][r] = row r times token t
template <class W, int Rows, int Tokens>
void tile(const uint8_t* w, int64_t cols, const float* const* x, float out[kTileTokens][kTileRows]) {
  f32x16 acc[Rows][Tokens];
  for (int r = 0; r < Rows; r++)
    for (int t = 0; t < Tokens; t++) acc[r][t] = zero();
  int64_t k = 0;
  auto step = [&](auto weights, auto activations) {
    f32x16 v[Tokens];
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; t++) {
      v[t] = activations(x[t] + k);
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; r++) {
      f32x16 row = weights(w + (r * cols + k) * W::kBytes);
#pragma GCC unroll 4
      for (int t = 0; t < Tokens; t++) acc[r][t] = fma(row, v[t], acc[r][t]);
    }
  };
  for (; k + 16 <= cols; k += 16)
    step([](const uint8_t* p) { return W::get(p); }, [](const float* p) { return load(p); });
  if (int n = (int)(cols - k))
    step([=](const uint8_t* p) { return first<W>(p, n); }, [=](const float* p) { return load_first(p, n); });
  for (int r = 0; r < Rows; r++)
    for (int t = 0; t < Tokens; t++) out[t][r] = reduce_add(acc[r][t]);
}

template <class W> void tokens_of(const uint8_t* w, int64_t cols, int rows, const float* const* x, int tokens,
                                  float out[kTileTokens][kTileRows]) {
  if (rows == kTileRows && tokens == kTileTokens) return tile<W, kTileRows, kTileTokens>(w, cols, x, out);
  if (rows == kTileRows && tokens == 1) return tile<W, kTileRows, 1>(w, cols, x, out);
  for (int t = 0; t < tokens; t++)
    for (int r = 0; r < rows; r++) {
      float one[kTileTokens][kTileRows];
      tile<W, 1, 1>(w + r * cols * W::kBytes, cols, x + t, one);
      out[t][r] = one[0][0];
    }
}

// put(token, row, value) for rows [row0, row1) and tokens [t0, t1), x_of(token) = its activations.
template <class W, class X, class Put>
void product_as(const uint8_t* w, int64_t cols, int64_t row0, int64_t row1, int64_t t0, int64_t t1, X x_of, Put put) {
  for (int64_t row = row0; row < row1; row += kTileRows) {
    int rows = (int)(row1 - row < kTileRows ? row1 - row : kTileRows);
    for (int64_t t = t0; t < t1; t += kTileTokens) {
      int tokens = (int)(t1 - t < kTileTokens ? t1 - t : kTileTokens);
      const float* x[kTileTokens];
      for (int i = 0; i < tokens; i++) x[i] = x_of(t + i);
      float out[kTileTokens][kTileRows];
      tokens_of<W>(w + row * cols * W::kBytes, cols, rows, x, tokens, out);
      for (int i = 0; i < tokens; i++)
        for (int r = 0; r < rows; r++) put(t + i, row + r, out[i][r]);
    }
  }
}

template <class X, class Put>
void product(const DenseWeights& w, int64_t row0, int64_t row1, int64_t t0, int64_t t1, X x_of, Put put) {
  if (w.dtype == Dtype::f32) product_as<F32>(w.data, w.cols, row0, row1, t0, t1, x_of, put);
  else if (w.dtype == Dtype::f16) product_as<F16>(w.data, w.cols, row0, row1, t0, t1, x_of, put);
  else product_as<BF16>(w.data, w.cols, row0, row1, t0, t1, x_of, put);
}

void matmul(const DenseWeights& w, const float* x, const Part& part, float* y) {
  product(w, part.row0, part.row1, part.t0, part.t1,
          [&](int64_t t) { return x + (t * part.token_step + part.token_first) * w.cols; },
          [&](int64_t t, int64_t row, float v) { y[t * w.rows + row] = v; });
}

void gate_up(const MoeArgs& a, int64_t expert, int64_t group) {
  constexpr int kPairs = 16;  // at a time
  int64_t row0 = group * 64, row1 = row0 + 64 < a.inner ? row0 + 64 : a.inner;
  auto part = [&](int i) {
    return DenseWeights{(const uint8_t*)a.parts[3 * expert + i], (Dtype)a.scheme, a.inner, a.hidden};
  };
  auto x_of = [&](int64_t p) { return a.x + a.pair_row[p] * a.hidden; };
  for (int64_t p = a.pair_start[expert], end = a.pair_start[expert + 1]; p < end; p += kPairs) {
    int64_t stop = p + kPairs < end ? p + kPairs : end;
    alignas(64) float gate[kPairs][64], up[kPairs][64];
    product(part(0), row0, row1, p, stop, x_of, [&](int64_t t, int64_t row, float v) { gate[t - p][row - row0] = v; });
    product(part(1), row0, row1, p, stop, x_of, [&](int64_t t, int64_t row, float v) { up[t - p][row - row0] = v; });
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

void down(const MoeArgs& a, int64_t expert, int64_t block0, int64_t block1) {
  DenseWeights w{(const uint8_t*)a.parts[3 * expert + 2], (Dtype)a.scheme, a.hidden, a.inner};
  int64_t row1 = block1 * kRows < a.hidden ? block1 * kRows : a.hidden;
  product(w, block0 * kRows, row1, a.pair_start[expert], a.pair_start[expert + 1],
          [&](int64_t p) { return a.inner_f32 + p * a.inner; },
          [&](int64_t p, int64_t row, float v) {
            if (a.pair_out) a.y[a.pair_out[p] * a.hidden + row] = v;
            else {
              float* y = a.y + a.pair_row[p] * a.hidden + row;
              *y = fma_one(a.pair_weight[p], v, *y);
            }
          });
}

// One row: y += the sum over j ascending of weights[j] * pairs[order[j]], skipping -1.
void combine(const float* pairs, const int64_t* order, const float* weights, int64_t k, int64_t cols, float* y) {
  for (int64_t c = 0; c < cols; c += 16) {
    int n = (int)(cols - c < 16 ? cols - c : 16);
    f32x16 acc = load_n(y + c, n);
    for (int64_t j = 0; j < k; j++)
      if (order[j] >= 0) acc = fma(set1(weights[j]), load_n(pairs + order[j] * cols + c, n), acc);
    store_n(y + c, acc, n);
  }
}

}  // namespace

extern const DenseKernels dense_kernels;
const DenseKernels dense_kernels{matmul, gate_up, down, combine};

}  // namespace coli::COLI_PATH
