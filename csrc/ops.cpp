// Row and element kernels: norms, softmax, SwiGLU's product.
#include "ops.h"

#include "ops_rows.h"

namespace coli::COLI_PATH {
namespace {

COLI_INLINE float sum(const float* x, int64_t n) {
  f32x16 s = zero();
  steps(n, [&](int64_t i, int c) { s = add(s, get(x + i, c)); });
  return reduce_add(s);
}

void rms_norm(const float* x, const float* w, float eps, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    const float* a = x + r * n;
    float* b = y + r * n;
    f32x16 inv = set1(inverse_root(sum_squares(a, 0.f, n), n, eps));
    steps(n, [&](int64_t i, int c) { put(b + i, mul(mul(get(a + i, c), inv), get(w + i, c)), c); });
  }
}

void add_rms_norm(float* x, float* y, const float* w, float eps, int64_t n, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    float* a = x + r * n;
    const float* b = y + r * n;
    steps(n, [&](int64_t i, int c) { put(a + i, add(get(a + i, c), get(b + i, c)), c); });
    rms_norm(x, w, eps, y, n, r, r + 1);
  }
}

void layer_norm(const float* x, const float* w, const float* bias, float eps, float* y, int64_t n, int64_t begin,
                int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    const float* a = x + r * n;
    float* b = y + r * n;
    float mean = sum(a, n) / (float)n;
    f32x16 m = set1(mean), inv = set1(inverse_root(sum_squares(a, mean, n), n, eps));
    steps(n, [&](int64_t i, int c) {
      f32x16 z = mul(sub(get(a + i, c), m), inv);
      put(b + i, fma(z, get(w + i, c), get(bias + i, c)), c);
    });
  }
}

// The largest element; NaN elements may be skipped (they reach the sum anyway).
COLI_INLINE float highest_of(const float* x, int64_t n) {
  f32x16 m = set1(-kInf);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) m = max(load(x + i), m);
  alignas(64) float t[16];
  store(t, m);
  float h = -kInf;
  for (int j = 0; j < 16; j++) h = t[j] > h ? t[j] : h;
  for (; i < n; i++) h = x[i] > h ? x[i] : h;
  return h;
}
// -inf everywhere: no distribution. A row with a NaN and nothing finite is left to become NaN.
COLI_INLINE bool all_minus_inf(const float* x, int64_t n, float highest) {
  if (highest != -kInf) return false;
  for (int64_t i = 0; i < n; i++)
    if (x[i] != -kInf) return false;
  return true;
}

int64_t softmax(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    const float* a = x + r * n;
    float* b = y + r * n;
    float highest = highest_of(a, n);
    if (all_minus_inf(a, n, highest)) return r;
    f32x16 s = zero(), m = set1(highest);
    steps(n, [&](int64_t i, int c) {
      f32x16 e = keep_first(exp(sub(get(a + i, c), m)), c);
      put(b + i, e, c);
      s = add(s, e);
    });
    f32x16 total = set1(reduce_add(s));
    steps(n, [&](int64_t i, int c) { put(b + i, div(get(b + i, c), total), c); });
  }
  return -1;
}

// Blocks of 1024 in fp32, the blocks in double: the error of a long fp32 sum stays out.
int64_t exp_sum(const float* x, float* highest, double* sum, int64_t n, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    const float* a = x + r * n;
    float h = highest_of(a, n);
    if (all_minus_inf(a, n, h)) return r;
    double total = 0;
    for (int64_t block = 0; block < n; block += 1024) {
      f32x16 s = zero(), m = set1(h);
      steps(n - block < 1024 ? n - block : 1024, [&](int64_t i, int c) {
        s = add(s, keep_first(exp(sub(get(a + block + i, c), m)), c));
      });
      total += (double)reduce_add(s);
    }
    highest[r] = h;
    sum[r] = total;
  }
  return -1;
}

void silu_mul(const float* gate, const float* up, float limit, float* y, int64_t begin, int64_t end) {
  steps(end - begin, [&](int64_t i, int c) {
    put(y + begin + i, swiglu(get(gate + begin + i, c), get(up + begin + i, c), set1(limit)), c);
  });
}

void sigmoid_all(const float* x, float* y, int64_t begin, int64_t end) {
  steps(end - begin, [&](int64_t i, int c) { put(y + begin + i, sigmoid(get(x + begin + i, c)), c); });
}

}  // namespace

const RowKernels row_kernels = {rms_norm, add_rms_norm, layer_norm, softmax, exp_sum, silu_mul, sigmoid_all};

}  // namespace coli::COLI_PATH
