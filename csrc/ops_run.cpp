#include "ops_run.h"

#include <atomic>
#include <bit>
#include <vector>

#include "pool.h"

namespace coli {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth another thread

int64_t rows_a_chunk(int64_t n) { return n >= kGrain ? 1 : kGrain / (n > 0 ? n : 1); }

// f(begin, end) returns a refused row or -1; rows of a chunk are tried in order, so the lowest of all is the answer.
template <class F> int64_t lowest_refused(int64_t rows, int64_t chunk, F f) {
  std::atomic<int64_t> lowest{INT64_MAX};
  parallel_for(rows, chunk, [&](int64_t begin, int64_t end) {
    int64_t bad = f(begin, end), seen = lowest.load();
    while (bad >= 0 && bad < seen && !lowest.compare_exchange_weak(seen, bad)) {
    }
  });
  return lowest == INT64_MAX ? -1 : lowest.load();
}

// Natural logarithm of x >= 1, in double, by the series of atanh: the same bits on every machine.
double log_of(double x) {
  auto bits = std::bit_cast<uint64_t>(x);
  int e = (int)(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | (1023ull << 52));  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    e++;
  }
  double s = (m - 1) / (m + 1), s2 = s * s, p = 0;
  for (int i = 23; i >= 1; i -= 2) p = p * s2 + 1.0 / i;
  return 2 * s * p + e * 0.6931471805599453;
}

}  // namespace

void rms_norm(const float* x, const float* w, float eps, float* y, int64_t rows, int64_t n) {
  const auto& k = COLI_PICK(row_kernels);
  parallel_for(rows, rows_a_chunk(n), [&](int64_t b, int64_t e) { k.rms_norm(x, w, eps, y, n, b, e); });
}

void add_rms_norm(float* x, float* y, const float* w, float eps, int64_t rows, int64_t n) {
  const auto& k = COLI_PICK(row_kernels);
  parallel_for(rows, rows_a_chunk(n), [&](int64_t b, int64_t e) { k.add_rms_norm(x, y, w, eps, n, b, e); });
}

void layer_norm(const float* x, const float* w, const float* bias, float eps, float* y, int64_t rows, int64_t n) {
  const auto& k = COLI_PICK(row_kernels);
  parallel_for(rows, rows_a_chunk(n), [&](int64_t b, int64_t e) { k.layer_norm(x, w, bias, eps, y, n, b, e); });
}

void silu_mul(const float* gate, const float* up, float limit, float* y, int64_t n) {
  const auto& k = COLI_PICK(row_kernels);
  parallel_for(n, kGrain, [&](int64_t b, int64_t e) { k.silu_mul(gate, up, limit, y, b, e); });
}

void sigmoid(const float* x, float* y, int64_t n) {
  const auto& k = COLI_PICK(row_kernels);
  parallel_for(n, kGrain, [&](int64_t b, int64_t e) { k.sigmoid(x, y, b, e); });
}

int64_t softmax(const float* x, float* y, int64_t rows, int64_t n) {
  const auto& k = COLI_PICK(row_kernels);
  return lowest_refused(rows, rows_a_chunk(n), [&](int64_t b, int64_t e) { return k.softmax(x, y, n, b, e); });
}

int64_t log_sum_exp(const float* x, double* y, int64_t rows, int64_t n) {
  const auto& k = COLI_PICK(row_kernels);
  std::vector<float> highest((size_t)rows);
  int64_t bad = lowest_refused(rows, rows_a_chunk(n), [&](int64_t b, int64_t e) {
    return k.exp_sum(x, highest.data(), y, n, b, e);
  });
  if (bad >= 0) return bad;
  for (int64_t r = 0; r < rows; r++) y[r] = y[r] == y[r] ? (double)highest[(size_t)r] + log_of(y[r]) : y[r];
  return -1;
}

void apply_rope(const Rope& a, int64_t rows) {
  const auto& k = COLI_PICK(rope_kernels);
  parallel_for(rows, rows_a_chunk(a.heads * a.half), [&](int64_t b, int64_t e) { k.apply(a, b, e); });
}

int64_t route(const Router& a, int64_t rows) {
  auto* f = a.bias ? COLI_PICK(route_kernels).sigmoid_topk : COLI_PICK(route_kernels).softmax_topk;
  return lowest_refused(rows, rows_a_chunk(a.experts * 4), [&](int64_t b, int64_t e) {
    std::vector<float> scratch((size_t)(2 * (a.experts + a.groups)));
    return f(a, scratch.data(), b, e);
  });
}

}  // namespace coli
