// Layers of grouped attention and routed experts, one after the other in one call, as long as the experts that they
// choose are at hand. Each has the bits of its own two calls; what is saved is all that Python does between them.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bind_grouped.h"
#include "bind_routed.h"

namespace coli {
namespace {

struct WalkedLayer {  // of objects that Python keeps alive
  const NormHandle& input_norm;
  const GroupedAttention& attention;
  const NormHandle& post_norm;
  const RoutedExperts& experts;
};

struct Walk {
  std::vector<WalkedLayer> layers;
};

using Parts = std::tuple<const NormHandle*, const GroupedAttention*, const NormHandle*, const RoutedExperts*>;

Walk make_walk(const std::vector<Parts>& layers) {
  Walk walk;
  for (const auto& [input_norm, attention, post_norm, experts] : layers) {
    require(input_norm && attention && post_norm && experts, "a layer of a walk has four parts");
    walk.layers.push_back({*input_norm, *attention, *post_norm, *experts});
  }
  require(!layers.empty(), "a walk has a layer at least");
  for (const WalkedLayer& layer : walk.layers)
    require(layer.experts.rule.router.k == walk.layers[0].experts.rule.router.k, "the layers must choose alike");
  return walk;
}

struct Traces {  // of each layer
  const Out<int32_t, 3>& ids;      // [layers, rows, k]
  const Out<float, 3>& weights;    // the same
  const Out<int64_t, 1>& named;    // [layers]: distinct experts that were run
  const Out<int64_t, 3>& moments;  // [layers, 3, 2]: attention, router and experts began: of a clock, and in kernels
};

void put(int64_t* at, const Moment& moment) { at[0] = moment.wall_ns, at[1] = moment.native_ns; }

// From layer `first` on, x the residual and y0 what is still to be added to it. Layer i of these leaves its output in y0
// if i is odd, else in y1. It ends after the layer in which `patience_ns` are over. Returns how many layers were walked
// whole, how many were begun, and a row with a router logit that is not finite or -1. A layer begun and not walked has
// its attention done, and its choice made for what has become the norm in y0, or y1 if the number walked is odd.
std::tuple<int64_t, int64_t, int64_t> py_walk(const Walk& walk, int64_t first, const Floats& x, const Floats& y0, const Floats& y1,
                                     bool add, const StepRows& rows, const Out<int32_t, 3>& ids,
                                     const Out<float, 3>& weights, const Out<int64_t, 1>& named,
                                     const Out<int64_t, 3>& moments, int64_t patience_ns) {
  int64_t count = (int64_t)walk.layers.size() - first;
  require(first >= 0 && count > 0, "there is no such layer");
  require((int64_t)ids.shape(0) == count && named.shape(0) == ids.shape(0) && moments.shape(0) == ids.shape(0) &&
              moments.shape(1) == 3 && moments.shape(2) == 2,
          "ids, named and moments must have a row a layer");
  require(y0.data() != y1.data(), "y0 and y1 must be two arrays");
  Released released;
  int64_t until = released.time.moment().wall_ns + patience_ns;
  for (int64_t i = 0; i < count; i++, add = true) {
    const WalkedLayer& layer = walk.layers[(size_t)(first + i)];
    const Floats &y = i % 2 ? y1 : y0, &out = i % 2 ? y0 : y1;
    int64_t* at = moments.data() + 6 * i;
    put(at, released.time.moment());
    Stream s = stream_of(x, y, add, layer.input_norm), then = stream_of(x, y, true, layer.post_norm);
    auto parts = attended(s, layer.attention, rows);
    check_choice(ids, weights, s.rows, layer.experts.rule);
    int64_t pairs = (int64_t)(ids.shape(1) * ids.shape(2));
    Routing routing = routing_of(then, layer.experts.gate, layer.experts.rule, ids.data() + i * pairs, weights.data() + i * pairs);
    attend_layer(s, layer.attention, rows, parts);
    put(at + 2, released.time.moment());
    Ran ran = run_routed(then, routing, layer.experts, released.time, out.data());
    put(at + 4, ran.chosen);
    named.data()[i] = ran.experts;
    if (!ran.experts) return {i, i + 1, ran.bad};
    if (released.time.moment().wall_ns >= until) return {i + 1, i + 1, -1};
  }
  return {count, count, -1};
}

}  // namespace

void bind_walk(nb::module_& m) {
  nb::class_<Walk>(m, "Walk");
  m.def("make_walk", &make_walk, nb::arg("layers"), nb::keep_alive<0, 1>());
  m.def("walk", &py_walk, nb::arg("walk"), nb::arg("first"), nb::arg("x").noconvert(), nb::arg("y0").noconvert(),
        nb::arg("y1").noconvert(), nb::arg("add"), nb::arg("rows"), nb::arg("ids").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("named").noconvert(), nb::arg("moments").noconvert(),
        nb::arg("patience_ns"));
}

}  // namespace coli
