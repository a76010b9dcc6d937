// The two inner products of attention, tiled so that P queries share every load of a key. An element's bits do not
// depend on the tile: a dot product sums in 16 lanes and the fixed tree, a weighted sum takes its keys in order.
#pragma once
#include <cstdint>
#include <cstring>

#include "simd/simd.h"

namespace coli::COLI_PATH {

// How many accumulators live in registers.
template <int P, bool many = kRegisters >= 32, bool some = kRegisters >= 8> struct Registers {
  static constexpr int queries = 1, keys = 1, columns = 1;
};
template <int P> struct Registers<P, true, true> {
  static constexpr int queries = P, keys = 16 / P, columns = P == 1 ? 8 : 16 / P;
};
template <int P> struct Registers<P, false, true> {
  static constexpr int queries = P == 1 ? 1 : 2, keys = P == 1 ? 4 : 2, columns = keys;
};

// s[q][k] += q . k over one step of 16; the last step may be short (query rows are padded with zeros).
template <int Q, int K>
COLI_INLINE void dot_step(f32x16 (&s)[Q][K], const float* q, int64_t stride, const float* const* key, int64_t i, int count) {
  f32x16 k[K];
#pragma GCC unroll 16
  for (int n = 0; n < K; n++) k[n] = count == 16 ? load(key[n] + i) : load_first(key[n] + i, count);
#pragma GCC unroll 16
  for (int m = 0; m < Q; m++) {
    f32x16 x = held(load(q + m * stride + i));
#pragma GCC unroll 16
    for (int n = 0; n < K; n++) s[m][n] = fma(x, k[n], s[m][n]);
  }
}

// Dot products of P query rows and 16 / P keys: out[p * out_stride + k].
template <int P>
COLI_INLINE void dot_tile(const float* q, int64_t stride, const float* const* key, int64_t dim, float* out, int64_t out_stride) {
  constexpr int Q = Registers<P>::queries, K = Registers<P>::keys, T = 16 / P;
  f32x16 sums[16];
#pragma GCC unroll 16
  for (int p = 0; p < P; p += Q)
#pragma GCC unroll 16
    for (int k = 0; k < T; k += K) {
      f32x16 s[Q][K];
#pragma GCC unroll 16
      for (int m = 0; m < Q; m++)
#pragma GCC unroll 16
        for (int n = 0; n < K; n++) s[m][n] = zero();
      int64_t i = 0;
      for (; i + 16 <= dim; i += 16) dot_step<Q, K>(s, q + p * stride, stride, key + k, i, 16);
      if (i < dim) dot_step<Q, K>(s, q + p * stride, stride, key + k, i, (int)(dim - i));
#pragma GCC unroll 16
      for (int m = 0; m < Q; m++)
#pragma GCC unroll 16
        for (int n = 0; n < K; n++) {
          int lane = (p + m) * T + k + n;
          sums[4 * (lane % 4) + lane / 4] = s[m][n];
        }
    }
  alignas(64) float t[16];
  store(t, reduce_add_each(sums));
#pragma GCC unroll 16
  for (int p = 0; p < P; p++) std::memcpy(out + p * out_stride, t + p * T, sizeof(float) * T);
}

// Columns [begin, end) of rows that are wanted soon.
struct Ahead {
  const float* const* rows;
  int64_t begin, end;
  // What is due by the time that columns [column, column + width) of dim are done.
  __attribute__((always_inline)) Ahead share(int64_t column, int64_t width, int64_t dim) const {
    int64_t stop = column + width < dim ? end * (column + width) / dim / 16 * 16 : end;
    return {rows, end * column / dim / 16 * 16, stop};
  }
};
COLI_INLINE void fetch(const Ahead& a, int row) {
  for (int64_t i = a.begin; i < a.end; i += 16) prefetch(a.rows[row] + i);
}

// sum[p][column ..] = sum * rescale[p] + weights of 64 slots times values, slots [first, last) ascending.
template <int Q, int C>
COLI_INLINE void weighted_columns(const float* weight, const float* rescale, const float* const* value, int first,
                                  int last, int64_t column, int count, float* sum, int64_t stride, const Ahead& ahead) {
  f32x16 s[Q][C];
#pragma GCC unroll 16
  for (int m = 0; m < Q; m++)
#pragma GCC unroll 16
    for (int n = 0; n < C; n++) s[m][n] = mul(load(sum + m * stride + column + 16 * n), set1(rescale[m]));
  for (int j = first; j < last; j++) {
    fetch(ahead, j);
    f32x16 v[C];
#pragma GCC unroll 16
    for (int n = 0; n < C; n++) {
      const float* from = value[j] + column + 16 * n;
      v[n] = count == 16 ? load(from) : load_first(from, count);
    }
#pragma GCC unroll 16
    for (int m = 0; m < Q; m++) {
      f32x16 w = set1(weight[64 * m + j]);
#pragma GCC unroll 16
      for (int n = 0; n < C; n++) s[m][n] = fma(w, v[n], s[m][n]);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < Q; m++)
#pragma GCC unroll 16
    for (int n = 0; n < C; n++) store(sum + m * stride + column + 16 * n, s[m][n]);
}

// Rows of `sum` are padded to a multiple of 16 columns.
template <int P>
COLI_INLINE void weighted_tile(const float* weight, const float* rescale, const float* const* value, int first, int last,
                               int64_t dim, float* sum, int64_t stride, const Ahead& ahead) {
  constexpr int Q = Registers<P>::queries, C = Registers<P>::columns;
  int64_t c = 0;
  for (; c + 16 * C <= dim; c += 16 * C)
#pragma GCC unroll 16
    for (int p = 0; p < P; p += Q)
      weighted_columns<Q, C>(weight + 64 * p, rescale + p, value, first, last, c, 16, sum + p * stride, stride,
                             p ? Ahead{} : ahead.share(c, 16 * C, dim));
  for (; c < dim; c += 16) {
    int count = dim - c < 16 ? (int)(dim - c) : 16;
    for (int p = 0; p < P; p += Q)
      weighted_columns<Q, 1>(weight + 64 * p, rescale + p, value, first, last, c, count, sum + p * stride, stride,
                             p ? Ahead{} : ahead.share(c, 16, dim));
  }
}

}  // namespace coli::COLI_PATH
