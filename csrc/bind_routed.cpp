// A layer's second half in one call, where all experts that its router names are at hand.
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <tuple>

#include "bind_experts.h"
#include "bind_layer.h"

namespace coli {
namespace {

struct RoutedExperts {  // of objects that Python keeps alive
  const Projections& gate;
  const RouteRule& rule;
  const ExpertTable& table;
  float limit;
};

RoutedExperts make_routed(const Projections& gate, const RouteRule& rule, const ExpertTable& table, float limit) {
  require(limit > 0, "the limit must be positive");
  require(rule.router.experts == table.count() && gate.cols() == table.hidden, "the router does not fit the experts");
  return {gate, rule, table, limit};
}

bool all_at_hand(const ExpertTable& table, const int32_t* ids, int64_t pairs) {
  return std::all_of(ids, ids + pairs, [&](int32_t expert) { return table.at_hand.data()[expert]; });
}

// x += y, its norm into y, the router's choice; then, if all of it is at hand, the experts' sum into out. How many
// experts that were, 0 if one was missing, and when the choice was made.
std::tuple<int64_t, std::tuple<int64_t, int64_t>> py_norm_moe(const Floats& x, const Floats& y, bool add,
                                                              const NormHandle& norm, const RoutedExperts& routed,
                                                              const Out<int32_t, 2>& ids, const Floats& weights,
                                                              const Floats& out) {
  Stream s = stream_of(x, y, add, norm);
  Routing routing = routing_of(s, routed.gate, routed.rule, ids, weights);
  require(out.shape(0) == x.shape(0) && out.shape(1) == x.shape(1), "out must have the shape of x");
  require(out.data() != x.data() && out.data() != y.data(), "out must be an array of its own");
  int64_t k = routing.router.k, named = 0, bad;
  Moment chosen{};
  {
    Released released;
    bad = norm_route(s, routing);
    chosen = released.time.moment();
    if (bad < 0 && all_at_hand(routed.table, ids.data(), s.rows * k))
      named = run_all_experts(routed.table, {ids.data(), weights.data(), s.rows, k, s.y, routed.limit}, out.data());
  }
  refuse_row(bad);
  return {named, {chosen.wall_ns, chosen.native_ns}};
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
