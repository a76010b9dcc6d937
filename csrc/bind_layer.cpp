// The halves of a layer, few calls each. What does not change from step to step is checked once, when its object is
// made (Norm, Projections, Heads, KeyValues, RouteRule); a call checks what is new.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "bind.h"
#include "bind_matrix.h"
#include "layer.h"
#include "scratch.h"

namespace coli {
namespace {

using Floats = Out<float, 2>;  // [rows, n]

struct NormHandle {
  In<float, 1> weight;
  Norm norm;
};

NormHandle make_norm(const In<float, 1>& weight, float eps) {
  require(weight.shape(0) > 0, "the weight is empty");
  return {weight, {weight.data(), (int64_t)weight.shape(0), eps}};
}

struct Projections {  // of one input, with what keeps their arrays alive
  std::vector<Matrix> matrices;
  std::vector<std::optional<In<float, 1>>> biases;
  std::vector<Affine> affine;
  int planes;
  int64_t cols() const { return cols_of(affine[0].weights); }
};

Projections make_projections(const std::vector<const Matrix*>& ws, const std::vector<std::optional<In<float, 1>>>& biases,
                             int planes) {
  check_planes(planes);
  require(!ws.empty() && ws.size() == biases.size(), "there must be as many biases as weights, and one at least");
  Projections p{{}, biases, {}, planes};
  for (size_t i = 0; i < ws.size(); i++) {
    p.matrices.push_back(*ws[i]);
    require(cols_of(ws[i]->weights) == cols_of(ws[0]->weights), "the weights disagree on the number of inputs");
    require(!biases[i] || (int64_t)biases[i]->shape(0) == rows_of(ws[i]->weights), "a bias must have its weight's rows");
    p.affine.push_back({ws[i]->weights, biases[i] ? biases[i]->data() : nullptr});
  }
  return p;
}

// The one of them; a call that takes a single matrix says which.
const Affine& only(const Projections& p, int64_t inputs, int64_t outputs, const char* message) {
  require(p.affine.size() == 1 && p.cols() == inputs && rows_of(p.affine[0].weights) == outputs, message);
  return p.affine[0];
}

Stream stream_of(const Floats& x, const Floats& y, bool add, const NormHandle& norm) {
  require((int64_t)x.shape(1) == norm.norm.n, "the norm must have the length of x's rows");
  require(x.shape(0) == y.shape(0) && x.shape(1) == y.shape(1), "y must have the shape of x");
  require(!add || x.data() != y.data(), "x and y must be two arrays");
  return {x.data(), y.data(), (int64_t)x.shape(0), add, norm.norm};
}

std::vector<Output> outputs_of(const Projections& p, int64_t rows, const std::vector<Floats>& outs) {
  require(outs.size() == p.affine.size(), "there must be as many outs as weights");
  std::vector<Output> outputs;
  for (size_t i = 0; i < outs.size(); i++) {
    require((int64_t)outs[i].shape(0) == rows && (int64_t)outs[i].shape(1) == rows_of(p.affine[i].weights),
            "out has the wrong shape");
    outputs.push_back({p.affine[i], outs[i].data()});
  }
  return outputs;
}

void py_project(const In<float, 2>& x, const Projections& p, const std::vector<Floats>& outs) {
  require((int64_t)x.shape(1) == p.cols(), "x and the weights disagree on the number of inputs");
  auto outputs = outputs_of(p, (int64_t)x.shape(0), outs);
  Released released;
  project(outputs, x.data(), (int64_t)x.shape(0), p.planes);
}

void py_norm_project(const Floats& x, const Floats& y, bool add, const NormHandle& norm, const Projections& p,
                     const std::vector<Floats>& outs) {
  Stream s = stream_of(x, y, add, norm);
  require(s.norm.n == p.cols(), "x and the weights disagree on the number of inputs");
  auto outputs = outputs_of(p, s.rows, outs);
  Released released;
  normalize(s);
  project(outputs, s.y, s.rows, p.planes);
}

void py_swiglu(const In<float, 2>& x, const Projections& gate_up, const Projections& down, const Floats& out) {
  require(gate_up.affine.size() == 2 && gate_up.planes == down.planes, "swiglu takes gate and up, and down alike");
  const Affine &gate = gate_up.affine[0], &up = gate_up.affine[1];
  require(rows_of(gate.weights) == rows_of(up.weights), "gate and up must have the same number of rows");
  require((int64_t)x.shape(1) == gate_up.cols(), "x and the weights disagree on the number of inputs");
  require(out.shape(0) == x.shape(0), "out has the wrong shape");
  const Affine& last = only(down, rows_of(gate.weights), (int64_t)out.shape(1), "down does not fit gate and out");
  Released released;
  swiglu(gate, up, last, x.data(), (int64_t)x.shape(0), down.planes, out.data());
}

struct HeadsHandle {
  std::optional<NormHandle> q_norm, k_norm;  // keep the weights alive
  Heads heads;
};

HeadsHandle make_heads(int64_t heads, int64_t kv_heads, int64_t dim, const NormHandle* q_norm, const NormHandle* k_norm,
                       bool per_head, float clip, int64_t window, float scale, bool interleaved) {
  require(dim > 0 && kv_heads > 0 && heads > 0 && heads % kv_heads == 0, "the heads must divide into kv_heads groups");
  require(clip > 0 && window >= 1, "clip and window must be positive");
  HeadsHandle h{{}, {}, {heads, kv_heads, dim, {}, {}, per_head, clip, window, scale, interleaved}};
  auto keep = [&](const NormHandle* norm, int64_t n, std::optional<NormHandle>& owner, std::optional<Norm>& used) {
    if (!norm) return;
    require(norm->norm.n == (per_head ? dim : n * dim), "the norm must be as long as a head, or as all of them");
    owner = *norm, used = norm->norm;
  };
  keep(q_norm, heads, h.q_norm, h.heads.q_norm);
  keep(k_norm, kv_heads, h.k_norm, h.heads.k_norm);
  return h;
}

struct KeyValuesHandle {
  Out<float, 3> keys, values;
};

KeyValuesHandle make_key_values(const Out<float, 3>& keys, const Out<float, 3>& values) {
  for (size_t i = 0; i < 3; i++) require(keys.shape(i) == values.shape(i), "keys and values must have one shape");
  return {keys, values};
}

struct StepRows {
  In<int64_t, 1> positions;
  In<float, 2> cos, sin;
  std::vector<int64_t> stops;
  int64_t rows() const { return (int64_t)positions.shape(0); }
};

// Once a step: sequences lie one behind the other, each at consecutive positions.
StepRows make_step_rows(const In<int64_t, 1>& positions, const std::vector<int64_t>& stops, const In<float, 2>& cos,
                        const In<float, 2>& sin) {
  auto rows = (int64_t)positions.shape(0);
  require(cos.shape(0) == positions.shape(0) && sin.shape(0) == positions.shape(0) && cos.shape(1) == sin.shape(1),
          "cos and sin must be [rows, half]");
  require(!stops.empty() && stops.back() == rows, "the last sequence must stop at the last row");
  int64_t row = 0;
  for (int64_t stop : stops) {
    require(stop > row && stop <= rows, "every sequence must have a row");
    require(positions.data()[row] >= 0, "a position is negative");
    for (row++; row < stop; row++)
      require(positions.data()[row] == positions.data()[row - 1] + 1, "a sequence's positions must be consecutive");
  }
  return {positions, cos, sin, stops};
}

std::vector<CachedRows> parts_of(const StepRows& rows, const Heads& h, const std::vector<const KeyValuesHandle*>& caches,
                                 const std::vector<int64_t>& lengths) {
  require(caches.size() == rows.stops.size() && lengths.size() == caches.size(), "there must be a cache a sequence");
  std::vector<CachedRows> parts;
  int64_t row = 0;
  for (size_t i = 0; i < caches.size(); i++) {
    const auto& keys = caches[i]->keys;
    auto capacity = (int64_t)keys.shape(0);
    int64_t end = lengths[i] + rows.stops[i] - row;
    require((int64_t)keys.shape(1) == h.kv_heads && (int64_t)keys.shape(2) == h.dim, "a cache has other heads");
    require(rows.positions.data()[row] == lengths[i], "a sequence must go on where its cache ends");
    if (end > capacity)
      throw nb::index_error(
          ("cache of " + std::to_string(capacity) + " positions cannot hold " + std::to_string(end)).c_str());
    parts.push_back({{keys.data(), caches[i]->values.data(), capacity}, row, rows.stops[i]});
    row = rows.stops[i];
  }
  return parts;
}

// Attention with all around it: x += y, its norm, the projections, the heads, the output projection into y.
void py_grouped_attention(const Floats& x, const Floats& y, bool add, const NormHandle& norm, const Projections& qkv,
                          const HeadsHandle& heads, const Projections& o_proj, const StepRows& rows,
                          const std::vector<const KeyValuesHandle*>& caches, const std::vector<int64_t>& lengths) {
  Stream s = stream_of(x, y, add, norm);
  const Heads& h = heads.heads;
  int64_t q_width = h.heads * h.dim, kv_width = h.kv_heads * h.dim;
  require(qkv.affine.size() == 3 && qkv.cols() == s.norm.n, "attention takes q, k and v of x");
  for (int i = 0; i < 3; i++)
    require(rows_of(qkv.affine[(size_t)i].weights) == (i ? kv_width : q_width), "the projections do not fit the heads");
  const Affine& out = only(o_proj, q_width, s.norm.n, "the output projection does not fit the heads and x");
  require(rows.rows() == s.rows && 2 * (int64_t)rows.cos.shape(1) <= h.dim, "the step has other rows or a wider rope");
  auto parts = parts_of(rows, h, caches, lengths);
  Released released;
  Scratch<2> scratch(s.rows * (q_width + 2 * kv_width) * (int64_t)sizeof(float));
  float *q = (float*)(void*)scratch.data(), *k = q + s.rows * q_width, *v = k + s.rows * kv_width;
  normalize(s);
  Output into[] = {{qkv.affine[0], q}, {qkv.affine[1], k}, {qkv.affine[2], v}}, last[] = {{out, s.y}};
  project(into, s.y, s.rows, qkv.planes);
  attend_rows(h, q, k, v, {rows.positions.data(), rows.cos.data(), rows.sin.data(), (int64_t)rows.cos.shape(1)}, parts);
  project(last, q, s.rows, o_proj.planes);
}

struct RouteRule {
  std::optional<In<float, 1>> bias;
  Router router;
};

RouteRule make_route_rule(int64_t experts, int64_t k, const std::optional<In<float, 1>>& bias, int64_t n_group,
                          int64_t topk_group, bool renormalize, float scale) {
  require(experts > 0 && n_group >= 1 && experts % n_group == 0, "the experts must divide into n_group groups");
  require(topk_group >= 1 && topk_group <= n_group, "topk_group must be 1 .. n_group");
  require(k >= 1 && k <= experts / n_group * topk_group, "k must be 1 .. the number of experts to choose from");
  require(!bias || (int64_t)bias->shape(0) == experts, "the bias must have one element an expert");
  for (int64_t i = 0; bias && i < experts; i++)
    if (!__builtin_isfinite(bias->data()[i]))
      throw nb::value_error(("bias of expert " + std::to_string(i) + " is not finite").c_str());
  return {bias, {nullptr, bias ? bias->data() : nullptr, nullptr, nullptr, experts, k, n_group, topk_group, renormalize, scale}};
}

void py_norm_route(const Floats& x, const Floats& y, bool add, const NormHandle& norm, const Projections& gate,
                   const RouteRule& rule, const Out<int32_t, 2>& ids, const Floats& weights) {
  Stream s = stream_of(x, y, add, norm);
  Router r = rule.router;
  const Affine& logits = only(gate, s.norm.n, r.experts, "the router's weight does not fit x and the rule");
  for (int i = 0; i < 2; i++)
    require((int64_t)ids.shape((size_t)i) == (i ? r.k : s.rows) && ids.shape((size_t)i) == weights.shape((size_t)i),
            "ids and weights must be [rows, k]");
  int64_t bad;
  {
    Released released;
    Scratch<2> scratch(s.rows * r.experts * (int64_t)sizeof(float));
    auto* scores = (float*)(void*)scratch.data();
    Output out[] = {{logits, scores}};
    normalize(s);
    project(out, s.y, s.rows, gate.planes);
    r.logits = scores, r.ids = ids.data(), r.weights = weights.data();
    bad = route(r, s.rows);
  }
  if (bad >= 0) throw nb::value_error(("row " + std::to_string(bad) + ": a router logit is not finite").c_str());
}

void bind_objects(nb::module_& m) {
  nb::class_<NormHandle>(m, "Norm");
  nb::class_<Projections>(m, "Projections");
  nb::class_<HeadsHandle>(m, "Heads");
  nb::class_<KeyValuesHandle>(m, "KeyValues");
  nb::class_<StepRows>(m, "StepRows");
  nb::class_<RouteRule>(m, "RouteRule");
  m.def("norm", &make_norm, nb::arg("weight").noconvert(), nb::arg("eps"));
  m.def("projections", &make_projections, nb::arg("ws"), nb::arg("biases").noconvert(), nb::arg("planes"));
  m.def("heads", &make_heads, nb::arg("heads"), nb::arg("kv_heads"), nb::arg("dim"), nb::arg("q_norm").none(),
        nb::arg("k_norm").none(), nb::arg("per_head"), nb::arg("clip"), nb::arg("window"), nb::arg("scale"),
        nb::arg("interleaved"));
  m.def("key_values", &make_key_values, nb::arg("keys").noconvert(), nb::arg("values").noconvert());
  m.def("step_rows", &make_step_rows, nb::arg("positions").noconvert(), nb::arg("stops"), nb::arg("cos").noconvert(),
        nb::arg("sin").noconvert());
  m.def("route_rule", &make_route_rule, nb::arg("experts"), nb::arg("k"), nb::arg("bias").noconvert().none(),
        nb::arg("n_group"), nb::arg("topk_group"), nb::arg("renormalize"), nb::arg("scale"));
}

}  // namespace

void bind_layer(nb::module_& m) {
  bind_objects(m);
  m.def("project", &py_project, nb::arg("x").noconvert(), nb::arg("ws"), nb::arg("outs").noconvert());
  m.def("norm_project", &py_norm_project, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("add"),
        nb::arg("norm"), nb::arg("ws"), nb::arg("outs").noconvert());
  m.def("swiglu", &py_swiglu, nb::arg("x").noconvert(), nb::arg("gate_up"), nb::arg("down"),
        nb::arg("out").noconvert());
  m.def("grouped_attention", &py_grouped_attention, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("add"),
        nb::arg("norm"), nb::arg("qkv"), nb::arg("heads"), nb::arg("o_proj"), nb::arg("rows"), nb::arg("caches"),
        nb::arg("lengths"));
  m.def("norm_route", &py_norm_route, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("add"),
        nb::arg("norm"), nb::arg("gate"), nb::arg("rule"), nb::arg("ids").noconvert(), nb::arg("weights").noconvert());
}

}  // namespace coli
