#include "hyper_run.h"

#include <algorithm>

#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

constexpr int64_t kColumns = 1024;  // of all streams of a row, in a task

// f(row, first column, end) for the columns of all rows.
template <class F> void by_columns(const HyperShape& s, int64_t rows, F f) {
  int64_t parts = (s.n + kColumns - 1) / kColumns, chunk = std::max<int64_t>(1, kColumns / s.n);
  parallel_for(rows * parts, chunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t column = i % parts * kColumns;
      f(i / parts, column, std::min(column + kColumns, s.n));
    }
  });
}

}  // namespace

void hyper_enter(const HyperMix& m, float* x, int64_t rows, float* h, float* out) {
  const auto& k = COLI_PICK(hyper_kernels);
  const HyperShape& s = m.shape;
  const int64_t n = s.streams;
  Scratch<2> scratch(rows * (s.mixes() + n + n * n) * (int64_t)sizeof(float));
  auto* products = (float*)(void*)scratch.data();
  float *in = products + rows * s.mixes(), *between = in + rows * n;
  Product product[] = {{m.fn, products}};
  matmul(product, x, rows, 1, 1);
  HyperWeights a{s, x, products, m.base, m.scale, in, out, between};
  parallel_for((rows + kHyperRows - 1) / kHyperRows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) k.weights(a, i * kHyperRows, std::min((i + 1) * kHyperRows, rows));
  });
  by_columns(s, rows, [&](int64_t r, int64_t begin, int64_t end) {
    k.enter(s, in + r * n, between + r * n * n, x + r * n * s.n, h + r * s.n, begin, end);
  });
}

void hyper_leave(const HyperShape& s, const float* out, const float* y, int64_t rows, float* x) {
  const auto& k = COLI_PICK(hyper_kernels);
  by_columns(s, rows, [&](int64_t r, int64_t begin, int64_t end) {
    k.leave(s, out + r * s.streams, y + r * s.n, x + r * s.streams * s.n, begin, end);
  });
}

void hyper_mean(const HyperShape& s, const float* x, int64_t rows, float* y) {
  const auto& k = COLI_PICK(hyper_kernels);
  by_columns(s, rows, [&](int64_t r, int64_t begin, int64_t end) {
    k.mean(s, x + r * s.streams * s.n, y + r * s.n, begin, end);
  });
}

}  // namespace coli
