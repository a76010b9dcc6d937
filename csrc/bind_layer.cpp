// The halves of a layer, few calls each. What does not change from step to step is checked once, when its object is
// made; a call checks what is new.
#include "bind_layer.h"

#include "bind.h"
#include "scratch.h"

namespace coli {
namespace {

NormHandle make_norm(const In<float, 1>& weight, float eps) {
  require(weight.shape(0) > 0, "the weight is empty");
  return {weight, {weight.data(), (int64_t)weight.shape(0), eps}};
}

Projections make_projections(const std::vector<const Matrix*>& ws, const std::vector<std::optional<In<float, 1>>>& biases,
                             int planes) {
  check_planes(planes);
  require(!ws.empty() && ws.size() == biases.size(), "there must be as many biases as weights, and one at least");
  Projections p{{}, biases, {}, planes};
  for (size_t i = 0; i < ws.size(); i++) {
    p.matrices.push_back(*ws[i]);
    require(ws[i]->weights.cols == ws[0]->weights.cols, "the weights disagree on the number of inputs");
    require(!biases[i] || (int64_t)biases[i]->shape(0) == ws[i]->weights.rows, "a bias must have its weight's rows");
    p.affine.push_back({ws[i]->weights, biases[i] ? biases[i]->data() : nullptr});
  }
  return p;
}

std::vector<Output> outputs_of(const Projections& p, int64_t rows, const std::vector<Floats>& outs) {
  require(outs.size() == p.affine.size(), "there must be as many outs as weights");
  std::vector<Output> outputs;
  for (size_t i = 0; i < outs.size(); i++) {
    require((int64_t)outs[i].shape(0) == rows && (int64_t)outs[i].shape(1) == p.affine[i].weights.rows,
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

void py_swiglu(const In<float, 2>& x, const Projections& gate_up, const Projections& down, float limit, const Floats& out) {
  require(limit > 0, "the limit must be positive");
  require(gate_up.affine.size() == 2 && gate_up.planes == down.planes, "swiglu takes gate and up, and down alike");
  const Affine &gate = gate_up.affine[0], &up = gate_up.affine[1];
  require(gate.weights.rows == up.weights.rows, "gate and up must have the same number of rows");
  require((int64_t)x.shape(1) == gate_up.cols(), "x and the weights disagree on the number of inputs");
  require(out.shape(0) == x.shape(0), "out has the wrong shape");
  const Affine& last = only(down, gate.weights.rows, (int64_t)out.shape(1), "down does not fit gate and out");
  Released released;
  swiglu(gate, up, last, limit, x.data(), (int64_t)x.shape(0), down.planes, out.data());
}

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
  check_choice(ids, weights, s.rows, rule);
  Routing routing = routing_of(s, gate, rule, ids.data(), weights.data());
  int64_t bad;
  {
    Released released;
    bad = norm_route(s, routing);
  }
  refuse_row(bad);
}

void bind_objects(nb::module_& m) {
  nb::class_<NormHandle>(m, "Norm");
  nb::class_<Projections>(m, "Projections");
  nb::class_<RouteRule>(m, "RouteRule");
  m.def("norm", &make_norm, nb::arg("weight").noconvert(), nb::arg("eps"));
  m.def("projections", &make_projections, nb::arg("ws"), nb::arg("biases").noconvert(), nb::arg("planes"));
  m.def("route_rule", &make_route_rule, nb::arg("experts"), nb::arg("k"), nb::arg("bias").noconvert().none(),
        nb::arg("n_group"), nb::arg("topk_group"), nb::arg("renormalize"), nb::arg("scale"));
}

}  // namespace

Routing routing_of(const Stream& s, const Projections& gate, const RouteRule& rule, int32_t* ids, float* weights) {
  Router r = rule.router;
  const Affine& logits = only(gate, s.norm.n, r.experts, "the router's weight does not fit x and the rule");
  r.ids = ids, r.weights = weights;
  if (rule.given) rule.given->check(s.rows, r.experts, r.k);
  return {logits, gate.planes, r, rule.given};
}

int64_t norm_route(const Stream& s, Routing& routing) {
  Router& r = routing.router;
  Scratch<2> scratch(s.rows * r.experts * (int64_t)sizeof(float));
  auto* scores = (float*)(void*)scratch.data();
  Output out[] = {{routing.logits, scores}};
  normalize(s);
  project(out, s.y, s.rows, routing.planes);
  r.logits = scores;
  int64_t bad = route(r, s.rows);
  if (bad < 0 && routing.given) routing.given->take(s.rows, r.ids, r.weights);
  return bad;
}

void refuse_row(int64_t row) {
  if (row >= 0) throw nb::value_error(("row " + std::to_string(row) + ": a router logit is not finite").c_str());
}

void bind_layer(nb::module_& m) {
  bind_objects(m);
  bind_grouped(m);
  bind_routed(m);
  bind_given(m);
  bind_walk(m);
  m.def("project", &py_project, nb::arg("x").noconvert(), nb::arg("ws"), nb::arg("outs").noconvert());
  m.def("norm_project", &py_norm_project, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("add"),
        nb::arg("norm"), nb::arg("ws"), nb::arg("outs").noconvert());
  m.def("swiglu", &py_swiglu, nb::arg("x").noconvert(), nb::arg("gate_up"), nb::arg("down"), nb::arg("limit"),
        nb::arg("out").noconvert());
  m.def("norm_route", &py_norm_route, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("add"),
        nb::arg("norm"), nb::arg("gate"), nb::arg("rule"), nb::arg("ids").noconvert(), nb::arg("weights").noconvert());
}

}  // namespace coli
