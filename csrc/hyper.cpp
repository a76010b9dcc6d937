// Hyper-connections' kernels. Weights of 16 rows at once, a row a lane: no sum crosses lanes, so a row's bits do not
// depend on its neighbours. Every sum over streams runs in ascending order.
#include "hyper.h"

#include "ops_rows.h"

namespace coli::COLI_PATH {
namespace {

struct Mixes {  // of 16 rows: the products, normed; then what becomes of them
  f32x16 v[kMaxStreams * (2 + kMaxStreams)];
};

void gather(const HyperWeights& a, int64_t begin, int64_t end, Mixes& m) {
  const int64_t width = a.shape.streams * a.shape.n, mixes = a.shape.mixes();
  alignas(64) float lane[16] = {}, inverse[16] = {};
  for (int64_t r = begin; r < end; r++)
    inverse[r - begin] = inverse_root(sum_squares(a.x + r * width, 0.f, width), width, a.shape.norm_eps);
  f32x16 inv = load(inverse);
  for (int64_t i = 0; i < mixes; i++) {
    for (int64_t r = begin; r < end; r++) lane[r - begin] = a.products[r * mixes + i];
    int64_t kind = i < a.shape.streams ? 0 : i < 2 * a.shape.streams ? 1 : 2;
    m.v[i] = fma(mul(load(lane), inv), set1(a.scale[kind]), set1(a.base[i]));
  }
}

// Columns of lanes back to rows: y[r][i] = v[i], lane r.
void scatter(const f32x16* v, int64_t count, float* y, int64_t rows) {
  for (int64_t i = 0; i < count; i++) {
    alignas(64) float lane[16];
    store(lane, v[i]);
    for (int64_t r = 0; r < rows; r++) y[r * count + i] = lane[r];
  }
}

// c[i * step] divided by their sum, for i < n.
COLI_INLINE void share(f32x16* c, int64_t n, int64_t step, f32x16 eps) {
  f32x16 sum = c[0];
  for (int64_t i = 1; i < n; i++) sum = add(sum, c[i * step]);
  sum = add(sum, eps);
  for (int64_t i = 0; i < n; i++) c[i * step] = div(c[i * step], sum);
}

COLI_INLINE void softmax_row(f32x16* c, int64_t n, f32x16 eps) {
  f32x16 highest = c[0];
  for (int64_t i = 1; i < n; i++) highest = max(c[i], highest);
  for (int64_t i = 0; i < n; i++) c[i] = exp(sub(c[i], highest));
  share(c, n, 1, zero());
  for (int64_t i = 0; i < n; i++) c[i] = add(c[i], eps);
}

void sinkhorn(f32x16* c, int64_t n, int64_t iterations, f32x16 eps) {
  for (int64_t i = 0; i < n; i++) softmax_row(c + i * n, n, eps);
  for (int64_t k = 0; k < iterations; k++) {
    for (int64_t i = 0; i < n && k; i++) share(c + i * n, n, 1, eps);
    for (int64_t j = 0; j < n; j++) share(c + j, n, n, eps);
  }
}

void weights(const HyperWeights& a, int64_t begin, int64_t end) {
  const int64_t n = a.shape.streams, rows = end - begin;
  Mixes m;
  f32x16 eps = set1(a.shape.eps);
  gather(a, begin, end, m);
  for (int64_t i = 0; i < n; i++) {
    m.v[i] = add(sigmoid(m.v[i]), eps);
    m.v[n + i] = mul(set1(2.f), sigmoid(m.v[n + i]));
  }
  sinkhorn(m.v + 2 * n, n, a.shape.iterations, eps);
  scatter(m.v, n, a.in + begin * n, rows);
  scatter(m.v + n, n, a.out + begin * n, rows);
  scatter(m.v + 2 * n, n * n, a.between + begin * n * n, rows);
}

// Streams known to the compiler (0: not) stay in registers.
template <int S> COLI_INLINE void enter_as(const HyperShape& s, const float* in, const float* between, float* x,
                                           float* h, int64_t begin, int64_t end) {
  const int64_t n = S ? S : s.streams;
  steps(end - begin, [&](int64_t i, int c) {
    f32x16 old[S ? S : kMaxStreams];
    auto sum = [&](const float* weight, int64_t step) {
      f32x16 y = mul(set1(weight[0]), old[0]);
#pragma GCC unroll 4
      for (int64_t k = 1; k < n; k++) y = fma(set1(weight[k * step]), old[k], y);
      return y;
    };
#pragma GCC unroll 4
    for (int64_t k = 0; k < n; k++) old[k] = get(x + k * s.n + begin + i, c);
    put(h + begin + i, sum(in, 1), c);
#pragma GCC unroll 4
    for (int64_t j = 0; j < n; j++) put(x + j * s.n + begin + i, sum(between + j, n), c);
  });
}

void enter(const HyperShape& s, const float* in, const float* between, float* x, float* h, int64_t begin, int64_t end) {
  if (s.streams == 4) enter_as<4>(s, in, between, x, h, begin, end);
  else enter_as<0>(s, in, between, x, h, begin, end);
}

void leave(const HyperShape& s, const float* out, const float* y, float* x, int64_t begin, int64_t end) {
  steps(end - begin, [&](int64_t i, int c) {
    f32x16 made = get(y + begin + i, c);
    for (int64_t j = 0; j < s.streams; j++) {
      float* to = x + j * s.n + begin + i;
      put(to, fma(set1(out[j]), made, get(to, c)), c);
    }
  });
}

void mean(const HyperShape& s, const float* x, float* y, int64_t begin, int64_t end) {
  f32x16 count = set1((float)s.streams);
  steps(end - begin, [&](int64_t i, int c) {
    f32x16 sum = get(x + begin + i, c);
    for (int64_t j = 1; j < s.streams; j++) sum = add(sum, get(x + j * s.n + begin + i, c));
    put(y + begin + i, div(sum, count), c);
  });
}

}  // namespace

const HyperKernels hyper_kernels = {weights, enter, leave, mean};

}  // namespace coli::COLI_PATH
