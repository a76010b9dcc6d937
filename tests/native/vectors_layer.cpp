// The halves of a layer: what they add to the kernels that they call (biases, clipping, the order of the steps).
#include "layer.h"
#include "vectors.h"

namespace vectors {
namespace {

using namespace coli;

constexpr float kInf = __builtin_inff();

Affine affine(const Floats& w, int64_t rows, int64_t cols, const Floats* bias) {
  return {Weights{(const uint8_t*)(const void*)w.data(), Format::f32, rows, cols}, bias ? bias->data() : nullptr};
}

void projections() {
  constexpr int64_t rows = 3, n = 40, wide = 21;
  Random random(51);
  Floats x = random.values(rows * n), y = random.values(rows * n), norm = random.values(n);
  Floats w = random.values(wide * n), bias = random.values(wide), out((size_t)(rows * wide)), last((size_t)(rows * n));
  Floats back = random.values(n * wide);
  normalize({x.data(), y.data(), rows, true, {norm.data(), n, 1e-6f}});
  Affine a = affine(w, wide, n, &bias), down = affine(back, n, wide, nullptr);
  Output outputs[] = {{a, out.data()}};
  project(outputs, y.data(), rows, 2);
  swiglu(a, a, down, kNoLimit, y.data(), rows, 2, last.data());
  report("norm, bias, swiglu", Hash().add(x).add(y).add(out).add(last));
  swiglu(a, a, down, 0.75f, y.data(), rows, 2, last.data());
  report("swiglu limited", Hash().add(last));
}

void attention(bool per_head, float clip) {
  constexpr int64_t heads = 6, kv_heads = 2, dim = 12, rows = 5, capacity = 80, half = 6;
  Random random(52);
  Floats q = random.values(rows * heads * dim), k = random.values(rows * kv_heads * dim), v = k;
  Floats norm = random.values(heads * dim), cos((size_t)(rows * half)), sin(cos.size());
  Floats keys = random.values(2 * capacity * kv_heads * dim), values = random.values(2 * capacity * kv_heads * dim);
  Floats frequencies{1.f, 0.5f, 0.25f, 0.1f, 0.03f, 0.01f};
  Ids positions{70, 71, 72, 3, 4};
  rope_table(positions.data(), frequencies.data(), 1.f, cos.data(), sin.data(), rows, half);
  Heads h{heads, kv_heads, dim, Norm{norm.data(), per_head ? dim : heads * dim, 1e-5f}, {}, per_head, clip, 64, 0.3f, false, false};
  float *other_keys = keys.data() + capacity * kv_heads * dim, *other_values = values.data() + capacity * kv_heads * dim;
  CachedRows parts[] = {{{keys.data(), values.data(), capacity}, 0, 3}, {{other_keys, other_values, capacity}, 3, rows}};
  attend_rows(h, q.data(), k.data(), v.data(), {positions.data(), cos.data(), sin.data(), half}, parts);
  report(std::string("attend rows ") + (per_head ? "per head" : "whole"), Hash().add(q).add(keys).add(values));
}

}  // namespace

void layer_vectors() {
  projections();
  attention(true, 1.25f);
  attention(false, kInf);
}

}  // namespace vectors
