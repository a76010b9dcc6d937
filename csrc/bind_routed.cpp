#include "bind_routed.h"

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <tuple>

namespace coli {
namespace {

bool all_at_hand(const ExpertTable& table, const int32_t* ids, int64_t pairs) {
  return std::all_of(ids, ids + pairs, [&](int32_t expert) { return table.at_hand.data()[expert]; });
}

}  // namespace

Ran run_routed(const Stream& s, Routing& routing, const RoutedExperts& routed, const CallTime& time, float* out) {
  Ran ran;
  ran.bad = norm_route(s, routing);
  ran.chosen = time.moment();
  const Router& r = routing.router;
  if (ran.bad < 0 && all_at_hand(routed.table, r.ids, s.rows * r.k))
    ran.experts = run_all_experts(routed.table, {r.ids, r.weights, s.rows, r.k, s.y, routed.limit}, out);
  return ran;
}

namespace {

RoutedExperts make_routed(const Projections& gate, const RouteRule& rule, const ExpertTable& table, float limit) {
  require(limit > 0, "the limit must be positive");
  require(rule.router.experts == table.count() && gate.cols() == table.hidden, "the router does not fit the experts");
  return {gate, rule, table, limit};
}

// x += y, its norm into y, the router's choice; then the experts' sum into out. How many experts that were, and when
// the choice was made.
std::tuple<int64_t, std::tuple<int64_t, int64_t>> py_norm_moe(const Floats& x, const Floats& y, bool add,
                                                              const NormHandle& norm, const RoutedExperts& routed,
                                                              const Out<int32_t, 2>& ids, const Floats& weights,
                                                              const Floats& out) {
  Stream s = stream_of(x, y, add, norm);
  check_choice(ids, weights, s.rows, routed.rule);
  Routing routing = routing_of(s, routed.gate, routed.rule, ids.data(), weights.data());
  require(out.shape(0) == x.shape(0) && out.shape(1) == x.shape(1), "out must have the shape of x");
  require(out.data() != x.data() && out.data() != y.data(), "out must be an array of its own");
  Ran ran;
  {
    Released released;
    ran = run_routed(s, routing, routed, released.time, out.data());
  }
  refuse_row(ran.bad);
  return {ran.experts, {ran.chosen.wall_ns, ran.chosen.native_ns}};
}

}  // namespace

void bind_routed(nb::module_& m) {
  nb::class_<RoutedExperts>(m, "RoutedExperts");
  m.def("routed_experts", &make_routed, nb::arg("gate"), nb::arg("rule"), nb::arg("table"), nb::arg("limit"),
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
  m.def("norm_moe", &py_norm_moe, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("add"), nb::arg("norm"),
        nb::arg("experts"), nb::arg("ids").noconvert(), nb::arg("weights").noconvert(), nb::arg("out").noconvert());
}

}  // namespace coli
