#include "layer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth another thread

void add_bias(float* y, const float* bias, int64_t rows, int64_t n) {
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      for (int64_t i = 0; i < n; i++) y[r * n + i] += bias[i];
  });
}

// NaN stays.
void clip_all(float* y, int64_t n, float limit) {
  if (std::isinf(limit)) return;
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) y[i] = y[i] < -limit ? -limit : y[i] > limit ? limit : y[i];
  });
}

void norm_heads(const Heads& h, const std::optional<Norm>& norm, float* y, int64_t rows, int64_t heads) {
  if (norm && !h.per_head) rms_norm(y, norm->weight, norm->eps, y, rows, norm->n);
  clip_all(y, rows * heads * h.dim, h.clip);
  if (norm && h.per_head) rms_norm(y, norm->weight, norm->eps, y, rows * heads, norm->n);
}

void rotate(const Heads& h, float* y, int64_t rows, int64_t heads, const Positions& p) {
  apply_rope(Rope{y, p.cos, p.sin, heads, h.dim, p.half, 0, h.interleaved}, rows);
}

void append(const CachedRows& part, const float* k, const float* v, int64_t position, int64_t width) {
  auto bytes = sizeof(float) * (size_t)((part.row1 - part.row0) * width);
  std::memcpy(part.cache.keys + position * width, k + part.row0 * width, bytes);
  std::memcpy(part.cache.values + position * width, v + part.row0 * width, bytes);
}

}  // namespace

void normalize(const Stream& s) {
  if (s.add) add_rms_norm(s.x, s.y, s.norm.weight, s.norm.eps, s.rows, s.norm.n);
  else rms_norm(s.x, s.norm.weight, s.norm.eps, s.y, s.rows, s.norm.n);
}

void project(std::span<const Output> outputs, const float* x, int64_t rows, int planes) {
  std::vector<Product> products;
  products.reserve(outputs.size());
  for (const Output& out : outputs) products.push_back({out.of.weights, out.y});
  matmul(products, x, rows, 1, planes);
  for (const Output& out : outputs)
    if (out.of.bias) add_bias(out.y, out.of.bias, rows, out.of.weights.rows);
}

void swiglu(const Affine& gate, const Affine& up, const Affine& down, float limit, const float* x, int64_t rows,
            int planes, float* out) {
  int64_t inner = gate.weights.rows;
  Scratch<2> scratch(2 * rows * inner * (int64_t)sizeof(float));
  float *g = (float*)(void*)scratch.data(), *u = g + rows * inner;
  Output both[] = {{gate, g}, {up, u}}, last[] = {{down, out}};
  project(both, x, rows, planes);
  silu_mul(g, u, limit, g, rows * inner);
  project(last, g, rows, planes);
}

void attend_rows(const Heads& h, float* q, float* k, float* v, const Positions& p, std::span<const CachedRows> parts) {
  int64_t rows = parts.back().row1, width = h.kv_heads * h.dim;
  norm_heads(h, h.q_norm, q, rows, h.heads);
  norm_heads(h, h.k_norm, k, rows, h.kv_heads);
  norm_heads(h, std::nullopt, v, rows, h.kv_heads);
  rotate(h, q, rows, h.heads, p);
  rotate(h, k, rows, h.kv_heads, p);
  for (const CachedRows& part : parts) {
    int64_t position = p.positions[part.row0], n = part.row1 - part.row0;
    append(part, k, v, position, width);
    // A task copies its queries before it writes where they were.
    float* own = q + part.row0 * h.heads * h.dim;
    attend(Attend{own, part.cache.keys, part.cache.values, own, p.positions + part.row0, nullptr, width, h.dim, width,
                  h.dim, position + n, h.kv_heads, h.heads / h.kv_heads, h.dim, h.dim, 0, h.window, h.scale},
           n);
  }
}

void take_queries(const float* both, float* q, int64_t heads, int64_t dim) {
  parallel_for(heads, std::max<int64_t>(1, kGrain / dim), [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; h++) std::memcpy(q + h * dim, both + 2 * h * dim, sizeof(float) * (size_t)dim);
  });
}

void gate_heads(float* both, float* q, int64_t heads, int64_t dim) {
  const auto& k = COLI_PICK(row_kernels);
  parallel_for(heads, std::max<int64_t>(1, kGrain / dim), [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; h++) {
      float *gate = both + (2 * h + 1) * dim, *out = q + h * dim;
      k.sigmoid(gate, gate, 0, dim);
      for (int64_t i = 0; i < dim; i++) out[i] *= gate[i];
    }
  });
}

}  // namespace coli
