// The sparse-attention indexer. Scores: for one query row, the sum over heads of w * relu(q . k). Pooled keys: a weighted
// mean of a few rows' keys in each channel.
#include "ops.h"
#include "ops_rows.h"
#include "ops_tile.h"

namespace coli::COLI_PATH {
namespace {

constexpr int kKeys = 16;

// relu that keeps NaN.
COLI_INLINE f32x16 relu(f32x16 x) { return select(less(x, zero()), zero(), x); }

// 16 keys against heads [head, head + P): s += w * relu(dot), heads ascending.
template <int P>
COLI_INLINE f32x16 add_heads(const Indexer& a, const float* q, const float* w, const float* const* key, f32x16 s) {
  alignas(64) float dots[P * kKeys];
  for (int k = 0; k < kKeys; k += 16 / P) dot_tile<P>(q, a.q_stride, key + k, a.dim, dots + k, kKeys);
#pragma GCC unroll 16
  for (int p = 0; p < P; p++) s = fma(set1(w[p]), relu(load(dots + kKeys * p)), s);
  return s;
}

void scores(const Indexer& a, int64_t row, float* out, int64_t begin, int64_t end) {
  const float *q = a.q + row * a.heads * a.q_stride, *w = a.w + row * a.heads;
  for (int64_t i = begin; i < end; i += kKeys) {
    const float* key[kKeys];
    for (int64_t j = 0; j < kKeys; j++) key[j] = a.k + (i + j < end ? i + j : end - 1) * a.k_stride;
    f32x16 s = zero();
    int64_t h = 0;
    for (; h + 8 <= a.heads; h += 8) s = add_heads<8>(a, q + h * a.q_stride, w + h, key, s);
    for (; h < a.heads; h++) s = add_heads<1>(a, q + h * a.q_stride, w + h, key, s);
    store_first(out + i, s, end - i < kKeys ? (int)(end - i) : kKeys);
  }
}

// One pool's channels [i, i + count): the rows in order, their weights the exp of what they have below the highest.
COLI_INLINE f32x16 pooled(const KeyPool& a, const float* rows, int64_t i, int count) {
  f32x16 highest = set1(-kInf), mass = zero(), sum = zero();
  for (int64_t j = 0; j < a.pool; j++)
    highest = max(add(get(rows + (2 * j + 1) * a.dim + i, count), get(a.bias + j * a.dim + i, count)), highest);
  for (int64_t j = 0; j < a.pool; j++) {
    f32x16 gate = add(get(rows + (2 * j + 1) * a.dim + i, count), get(a.bias + j * a.dim + i, count));
    f32x16 weight = exp(sub(gate, highest));
    mass = add(mass, weight);
    sum = fma(weight, get(rows + 2 * j * a.dim + i, count), sum);
  }
  return div(sum, mass);
}

void pool_keys(const KeyPool& a, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; p++)
    steps(a.dim, [&](int64_t i, int count) {
      put(a.out + p * a.dim + i, pooled(a, a.rows + 2 * p * a.pool * a.dim, i, count), count);
    });
}

}  // namespace

const IndexKernels index_kernels = {scores, pool_keys};

}  // namespace coli::COLI_PATH
