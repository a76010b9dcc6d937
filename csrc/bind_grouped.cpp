// Grouped-query attention of a layer in one call, over the caches of all sequences of a step.
#include <algorithm>

#include "bind.h"
#include "bind_grouped.h"
#include "scratch.h"

namespace coli {
namespace {

KeyValuesHandle make_key_values(const Out<float, 3>& keys, const Out<float, 3>& values) {
  for (size_t i = 0; i < 3; i++) require(keys.shape(i) == values.shape(i), "keys and values must have one shape");
  return {keys, values};
}

// Once a step: sequences lie one behind the other, each at consecutive positions.
StepRows make_step_rows(const In<int64_t, 1>& positions, const std::vector<int64_t>& stops, const In<float, 2>& cos,
                        const In<float, 2>& sin, const Caches& caches) {
  auto rows = (int64_t)positions.shape(0);
  require(cos.shape(0) == positions.shape(0) && sin.shape(0) == positions.shape(0) && cos.shape(1) == sin.shape(1),
          "cos and sin must be [rows, half]");
  require(!stops.empty() && stops.back() == rows, "the last sequence must stop at the last row");
  require(caches.size() == stops.size(), "there must be a list of caches a sequence");
  int64_t row = 0;
  for (int64_t stop : stops) {
    require(stop > row && stop <= rows, "every sequence must have a row");
    require(positions.data()[row] >= 0, "a position is negative");
    for (row++; row < stop; row++)
      require(positions.data()[row] == positions.data()[row - 1] + 1, "a sequence's positions must be consecutive");
  }
  return {positions, cos, sin, stops, caches};
}

void keep_norm(const NormHandle* norm, int64_t length, std::optional<NormHandle>& owner, std::optional<Norm>& used) {
  if (!norm) return;
  require(norm->norm.n == length, "the norm must be as long as a head, or as all of them");
  owner = *norm, used = norm->norm;
}

GroupedAttention make_attention(int64_t layer, const Projections& qkv, const Projections& o_proj, int64_t heads,
                                int64_t kv_heads, int64_t dim, const NormHandle* q_norm, const NormHandle* k_norm,
                                bool per_head, float clip, int64_t window, float scale, bool interleaved,
                                bool gated) {
  require(dim > 0 && kv_heads > 0 && heads > 0 && heads % kv_heads == 0, "the heads must divide into kv_heads groups");
  require(clip > 0 && window >= 1 && layer >= 0, "clip and window must be positive");
  GroupedAttention a{layer, qkv, o_proj, {}, {}, {heads, kv_heads, dim, {}, {}, per_head, clip, window, scale, interleaved, gated}};
  keep_norm(q_norm, per_head ? dim : heads * dim, a.q_norm, a.heads.q_norm);
  keep_norm(k_norm, per_head ? dim : kv_heads * dim, a.k_norm, a.heads.k_norm);
  require(qkv.affine.size() == 3, "attention takes q, k and v");
  for (size_t i = 0; i < 3; i++)
    require(qkv.affine[i].weights.rows == (i ? a.kv_width() : a.q_rows()), "the projections do not fit the heads");
  only(o_proj, a.q_width(), qkv.cols(), "the output projection does not fit the heads and x");
  return a;
}

// The layer's cache of each sequence, which must end where the sequence goes on and have room for its rows.
std::vector<CachedRows> parts_of(const StepRows& step, int64_t layer, const Heads& h) {
  std::vector<CachedRows> parts;
  int64_t row = 0;
  for (size_t i = 0; i < step.stops.size(); i++) {
    require(layer < (int64_t)step.caches[i].size() && step.caches[i][(size_t)layer], "a sequence has no such cache");
    const KeyValuesHandle& c = **step.caches[i][(size_t)layer];
    int64_t capacity = (int64_t)c.keys.shape(0), end = c.length + step.stops[i] - row;
    require((int64_t)c.keys.shape(1) == h.kv_heads && (int64_t)c.keys.shape(2) == h.dim, "a cache has other heads");
    require(step.positions.data()[row] == c.length, "a sequence must go on where its cache ends");
    if (end > capacity)
      throw nb::index_error(
          ("cache of " + std::to_string(capacity) + " positions cannot hold " + std::to_string(end)).c_str());
    parts.push_back({{c.keys.data(), c.values.data(), capacity}, row, step.stops[i]});
    row = step.stops[i];
  }
  return parts;
}

void count_rows(const StepRows& step, int64_t layer) {
  int64_t row = 0;
  for (size_t i = 0; i < step.stops.size(); row = step.stops[i++]) {
    KeyValuesHandle& c = **step.caches[i][(size_t)layer];
    c.length += step.stops[i] - row;
    c.touched = std::max(c.touched, c.length);
  }
}

void py_grouped_attention(const Floats& x, const Floats& y, bool add, const NormHandle& norm, const GroupedAttention& a,
                          const StepRows& step) {
  Stream s = stream_of(x, y, add, norm);
  auto parts = attended(s, a, step);
  Released released;
  attend_layer(s, a, step, parts);
}

}  // namespace

std::vector<CachedRows> attended(const Stream& s, const GroupedAttention& a, const StepRows& step) {
  require(a.qkv.cols() == s.norm.n, "x and the weights disagree on the number of inputs");
  require(step.rows() == s.rows && 2 * (int64_t)step.cos.shape(1) <= a.heads.dim, "the step has other rows or a wider rope");
  return parts_of(step, a.layer, a.heads);
}

void attend_layer(const Stream& s, const GroupedAttention& a, const StepRows& step, std::span<const CachedRows> parts) {
  bool gated = a.heads.gated;
  Scratch<2> scratch(s.rows * (a.q_width() + 2 * a.kv_width() + (gated ? a.q_rows() : 0)) * (int64_t)sizeof(float));
  float *q = (float*)(void*)scratch.data(), *k = q + s.rows * a.q_width(), *v = k + s.rows * a.kv_width();
  float* both = v + s.rows * a.kv_width();
  Output into[] = {{a.qkv.affine[0], gated ? both : q}, {a.qkv.affine[1], k}, {a.qkv.affine[2], v}};
  Output last[] = {{a.o_proj.affine[0], s.y}};
  normalize(s);
  project(into, s.y, s.rows, a.qkv.planes);
  if (gated) take_queries(both, q, s.rows * a.heads.heads, a.heads.dim);
  attend_rows(a.heads, q, k, v, {step.positions.data(), step.cos.data(), step.sin.data(), (int64_t)step.cos.shape(1)}, parts);
  if (gated) gate_heads(both, q, s.rows * a.heads.heads, a.heads.dim);
  project(last, q, s.rows, a.o_proj.planes);
  count_rows(step, a.layer);
}

void bind_grouped(nb::module_& m) {
  nb::class_<KeyValuesHandle>(m, "KeyValues")
      .def_rw("length", &KeyValuesHandle::length)
      .def_rw("touched", &KeyValuesHandle::touched);
  nb::class_<GroupedAttention>(m, "GroupedAttention");
  nb::class_<StepRows>(m, "StepRows");
  m.def("attention", &make_attention, nb::arg("layer"), nb::arg("qkv"), nb::arg("o_proj"), nb::arg("heads"),
        nb::arg("kv_heads"), nb::arg("dim"), nb::arg("q_norm").none(), nb::arg("k_norm").none(), nb::arg("per_head"),
        nb::arg("clip"), nb::arg("window"), nb::arg("scale"), nb::arg("interleaved"),
        nb::arg("gated"));
  m.def("key_values", &make_key_values, nb::arg("keys").noconvert(), nb::arg("values").noconvert());
  m.def("step_rows", &make_step_rows, nb::arg("positions").noconvert(), nb::arg("stops"), nb::arg("cos").noconvert(),
        nb::arg("sin").noconvert(), nb::arg("caches"), nb::keep_alive<0, 5>());
  m.def("grouped_attention", &py_grouped_attention, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("add"),
        nb::arg("norm"), nb::arg("attention"), nb::arg("rows"));
}

}  // namespace coli
