// The delta rule's kernels: short convolution, gates, scan, gated norm.
#include "delta.h"

#include "ops_rows.h"

namespace coli::COLI_PATH {
namespace {

// log(1 + t) for t in 0 .. 1, by the series of atanh(t / (2 + t)), which no cancellation shortens.
COLI_INLINE f32x16 log_1p(f32x16 t) {
  f32x16 s = div(t, add(set1(2.f), t)), s2 = mul(s, s), p = set1(1.f / 17.f);
  p = fma(p, s2, set1(1.f / 15.f));
  p = fma(p, s2, set1(1.f / 13.f));
  p = fma(p, s2, set1(1.f / 11.f));
  p = fma(p, s2, set1(1.f / 9.f));
  p = fma(p, s2, set1(1.f / 7.f));
  p = fma(p, s2, set1(1.f / 5.f));
  p = fma(p, s2, set1(1.f / 3.f));
  p = fma(p, s2, set1(1.f));
  return mul(mul(set1(2.f), s), p);
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)); NaN stays.
COLI_INLINE f32x16 softplus(f32x16 x) {
  f32x16 high = max(x, zero()), low = min(x, zero());
  return select(is_nan(x), x, add(high, log_1p(exp(sub(low, high)))));
}

void exp_all(const float* x, float* y, int64_t n) {
  steps(n, [&](int64_t i, int c) { put(y + i, exp(get(x + i, c)), c); });
}

void conv_silu(const ShortConv& a, float* y, int64_t n) {
  steps(n, [&](int64_t i, int c) {
    f32x16 s = mul(get(a.weight + i, c), get(a.tap[0] + i, c));
    for (int64_t t = 1; t < a.taps; t++) s = fma(get(a.weight + t * a.stride + i, c), get(a.tap[t] + i, c), s);
    put(y + i, silu(s), c);
  });
}

COLI_INLINE void to_unit_length(float* x, int64_t n, float scale) {
  float sum = sum_squares(x, 0.f, n);
  f32x16 inv = set1(sum < kInf ? 1.f / __builtin_sqrtf(sum + 1e-6f) : kNan), factor = set1(scale);
  steps(n, [&](int64_t i, int c) { put(x + i, mul(mul(get(x + i, c), inv), factor), c); });
}

COLI_INLINE f32x16 log_decay(const DeltaShape& s, f32x16 x, f32x16 gain) {
  if (s.bounded) return mul(set1(s.lower), sigmoid(mul(gain, x)));
  return sub(zero(), mul(gain, softplus(x)));
}

void prepare(const DeltaRows& a, int64_t begin, int64_t end) {
  const DeltaShape& s = a.shape;
  float scale = 1.f / __builtin_sqrtf((float)s.key_dim);
  for (int64_t r = begin; r < end; r++) {
    float* q = a.qkv + r * s.channels();
    for (int64_t h = 0; h < s.key_heads; h++) {
      to_unit_length(q + h * s.key_dim, s.key_dim, scale);
      to_unit_length(q + s.keys() + h * s.key_dim, s.key_dim, 1.f);
    }
    int64_t g = r * s.gates();
    steps(s.gates(), [&](int64_t i, int c) {
      f32x16 x = add(get(a.gate + g + i, c), get(a.bias + i, c));
      put(a.decay + g + i, exp(log_decay(s, x, get(a.gain + i, c))), c);
    });
    int64_t b = r * s.heads;
    steps(s.heads, [&](int64_t i, int c) { put(a.write + b + i, sigmoid(get(a.beta + b + i, c)), c); });
  }
}

// N steps of 16 columns of a block of so many, the last of `count`, over all rows.
template <int N, bool whole>
COLI_INLINE void scan_columns(const DeltaScan& a, int64_t head, int64_t block, int64_t width, int64_t i0, int count) {
  const DeltaShape& s = a.shape;
  const int c = whole ? 16 : count;
  const int64_t place = (head * s.value_dim + block) * s.key_dim + i0, stride = s.per_channel ? 1 : 0;
  const int64_t column = head * s.value_dim + block + i0;
  const int64_t key_head = head / (s.heads / s.key_heads);
  for (int64_t r = 0; r < a.rows; r++) {
    const float* q = a.qkv + r * s.channels() + key_head * s.key_dim;
    const float* k = q + s.keys();
    const float* v = a.qkv + r * s.channels() + 2 * s.keys() + column;
    const float* decay = a.decay + r * s.gates() + head * (s.per_channel ? s.key_dim : 1);
    const float* before = (r ? a.after : a.before) + place;
    float* after = a.after + place;
    f32x16 found[N], out[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) found[n] = out[n] = zero();
    for (int64_t i = 0; i < s.key_dim; i++) {
      f32x16 key = set1(k[i]), kept = set1(decay[i * stride]);
#pragma GCC unroll 2
      for (int n = 0; n < N; n++) found[n] = fma(key, mul(kept, get(before + i * width + 16 * n, c)), found[n]);
    }
    f32x16 write = set1(a.write[r * s.heads + head]);
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) found[n] = mul(write, sub(get(v + 16 * n, c), found[n]));
    for (int64_t i = 0; i < s.key_dim; i++) {
      f32x16 key = set1(k[i]), query = set1(q[i]), kept = set1(decay[i * stride]);
#pragma GCC unroll 2
      for (int n = 0; n < N; n++) {
        f32x16 state = fma(key, found[n], mul(kept, get(before + i * width + 16 * n, c)));
        put(after + i * width + 16 * n, state, c);
        out[n] = fma(query, state, out[n]);
      }
    }
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) put(a.out + r * s.values() + column + 16 * n, out[n], c);
  }
}

void scan(const DeltaScan& a, int64_t head, int64_t column, int64_t width) {
  static_assert(kDeltaColumns == 32);
  if (width == 32) return scan_columns<2, true>(a, head, column, width, 0, 16);
  int64_t i = 0;
  for (; i + 16 <= width; i += 16) scan_columns<1, true>(a, head, column, width, i, 16);
  if (i < width) scan_columns<1, false>(a, head, column, width, i, (int)(width - i));
}

void norm_gate(const DeltaShape& a, const float* weight, const float* z, float* y, int64_t begin, int64_t end) {
  const int64_t n = a.value_dim;
  for (int64_t h = begin * a.heads; h < end * a.heads; h++) {
    float* b = y + h * n;
    f32x16 inv = set1(inverse_root(sum_squares(b, 0.f, n), n, a.eps));
    steps(n, [&](int64_t i, int c) {
      f32x16 gate = get(z + h * n + i, c);
      gate = a.silu ? silu(gate) : sigmoid(gate);
      put(b + i, mul(mul(mul(get(b + i, c), inv), get(weight + i, c)), gate), c);
    });
  }
}

}  // namespace

const DeltaKernels delta_kernels = {exp_all, conv_silu, prepare, scan, norm_gate};

}  // namespace coli::COLI_PATH
