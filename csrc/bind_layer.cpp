// The halves of a layer, few calls each. What does not change from step to step is checked once, when its object is
// made (Norm, Projections, GroupedAttention, RouteRule; StepRows once a step); a call checks what is new.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
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

struct KeyValuesHandle {  // the buffers of a cache, and how much of them is used
  Out<float, 3> keys, values;
  int64_t length = 0, touched = 0;
};

KeyValuesHandle make_key_values(const Out<float, 3>& keys, const Out<float, 3>& values) {
  for (size_t i = 0; i < 3; i++) require(keys.shape(i) == values.shape(i), "keys and values must have one shape");
  return {keys, values};
}

using Caches = std::vector<std::vector<std::optional<KeyValuesHandle*>>>;

struct StepRows {
  In<int64_t, 1> positions;
  In<float, 2> cos, sin;
  std::vector<int64_t> stops;
  Caches caches;  // by sequence and layer; none: of another kind
  int64_t rows() const { return (int64_t)positions.shape(0); }
};

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

struct GroupedAttention {
  int64_t layer;
  Projections qkv, o_proj;
  std::optional<NormHandle> q_norm, k_norm;  // keep the weights alive
  Heads heads;
  int64_t q_width() const { return heads.heads * heads.dim; }
  int64_t kv_width() const { return heads.kv_heads * heads.dim; }
};

void keep_norm(const NormHandle* norm, int64_t length, std::optional<NormHandle>& owner, std::optional<Norm>& used) {
  if (!norm) return;
  require(norm->norm.n == length, "the norm must be as long as a head, or as all of them");
  owner = *norm, used = norm->norm;
}

GroupedAttention make_attention(int64_t layer, const Projections& qkv, const Projections& o_proj, int64_t heads,
                                int64_t kv_heads, int64_t dim, const NormHandle* q_norm, const NormHandle* k_norm,
                                bool per_head, float clip, int64_t window, float scale, bool interleaved) {
  require(dim > 0 && kv_heads > 0 && heads > 0 && heads % kv_heads == 0, "the heads must divide into kv_heads groups");
  require(clip > 0 && window >= 1 && layer >= 0, "clip and window must be positive");
  GroupedAttention a{layer, qkv, o_proj, {}, {}, {heads, kv_heads, dim, {}, {}, per_head, clip, window, scale, interleaved}};
  keep_norm(q_norm, per_head ? dim : heads * dim, a.q_norm, a.heads.q_norm);
  keep_norm(k_norm, per_head ? dim : kv_heads * dim, a.k_norm, a.heads.k_norm);
  require(qkv.affine.size() == 3, "attention takes q, k and v");
  for (size_t i = 0; i < 3; i++)
    require(rows_of(qkv.affine[i].weights) == (i ? a.kv_width() : a.q_width()), "the projections do not fit the heads");
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

// Attention with all around it: x += y, its norm, the projections, the heads, the output projection into y.
void py_grouped_attention(const Floats& x, const Floats& y, bool add, const NormHandle& norm, const GroupedAttention& a,
                          const StepRows& step) {
  Stream s = stream_of(x, y, add, norm);
  auto half = (int64_t)step.cos.shape(1);
  require(a.qkv.cols() == s.norm.n, "x and the weights disagree on the number of inputs");
  require(step.rows() == s.rows && 2 * half <= a.heads.dim, "the step has other rows or a wider rope");
  auto parts = parts_of(step, a.layer, a.heads);
  {
    Released released;
    Scratch<2> scratch(s.rows * (a.q_width() + 2 * a.kv_width()) * (int64_t)sizeof(float));
    float *q = (float*)(void*)scratch.data(), *k = q + s.rows * a.q_width(), *v = k + s.rows * a.kv_width();
    Output into[] = {{a.qkv.affine[0], q}, {a.qkv.affine[1], k}, {a.qkv.affine[2], v}}, last[] = {{a.o_proj.affine[0], s.y}};
    normalize(s);
    project(into, s.y, s.rows, a.qkv.planes);
    attend_rows(a.heads, q, k, v, {step.positions.data(), step.cos.data(), step.sin.data(), half}, parts);
    project(last, q, s.rows, a.o_proj.planes);
  }
  count_rows(step, a.layer);
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
  nb::class_<KeyValuesHandle>(m, "KeyValues")
      .def_rw("length", &KeyValuesHandle::length)
      .def_rw("touched", &KeyValuesHandle::touched);
  nb::class_<GroupedAttention>(m, "GroupedAttention");
  nb::class_<StepRows>(m, "StepRows");
  nb::class_<RouteRule>(m, "RouteRule");
  m.def("norm", &make_norm, nb::arg("weight").noconvert(), nb::arg("eps"));
  m.def("projections", &make_projections, nb::arg("ws"), nb::arg("biases").noconvert(), nb::arg("planes"));
  m.def("attention", &make_attention, nb::arg("layer"), nb::arg("qkv"), nb::arg("o_proj"), nb::arg("heads"),
        nb::arg("kv_heads"), nb::arg("dim"), nb::arg("q_norm").none(), nb::arg("k_norm").none(), nb::arg("per_head"),
        nb::arg("clip"), nb::arg("window"), nb::arg("scale"), nb::arg("interleaved"));
  m.def("key_values", &make_key_values, nb::arg("keys").noconvert(), nb::arg("values").noconvert());
  m.def("step_rows", &make_step_rows, nb::arg("positions").noconvert(), nb::arg("stops"), nb::arg("cos").noconvert(),
        nb::arg("sin").noconvert(), nb::arg("caches"), nb::keep_alive<0, 5>());
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
        nb::arg("norm"), nb::arg("attention"), nb::arg("rows"));
  m.def("norm_route", &py_norm_route, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("add"),
        nb::arg("norm"), nb::arg("gate"), nb::arg("rule"), nb::arg("ids").noconvert(), nb::arg("weights").noconvert());
}

}  // namespace coli
