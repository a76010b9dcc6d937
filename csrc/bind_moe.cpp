#include <nanobind/stl/optional.h>

#include <cstring>
#include <optional>

#include "bind_arrays.h"
#include "pairs.h"

namespace coli {
namespace {

void check_indices(const int64_t* values, int64_t n, int64_t low, int64_t limit, const char* message) {
  for (int64_t i = 0; i < n; i++) require(values[i] >= low && values[i] < limit, message);
}

// Every expert's pairs, its rows and its addresses must exist before a kernel follows them.
void check_pairs(const In<uint64_t, 2>& parts, const In<int64_t, 1>& start, const In<int64_t, 1>& row,
                 int64_t tokens) {
  auto experts = (int64_t)parts.shape(0), pairs = (int64_t)row.shape(0);
  require((int64_t)start.shape(0) == experts + 1, "pair_start must have one entry more than there are experts");
  for (int64_t e = 0; e < experts; e++) {
    int64_t begin = start.data()[e], end = start.data()[e + 1];
    require(begin >= 0 && begin <= end && end <= pairs, "pair_start must ascend within the pairs");
    for (int i = 0; i < 3; i++)
      require(begin == end || parts.data()[3 * e + i] != 0, "an expert with pairs has no address");
  }
  check_indices(row.data(), pairs, 0, tokens, "pair_row is outside x");
}

void py_moe(bool packed, int scheme, int64_t inner, const In<uint64_t, 2>& parts, const In<float, 2>& multipliers,
            const In<int64_t, 1>& pair_start, const In<int64_t, 1>& pair_row, const In<float, 1>& pair_weight,
            const In<float, 2>& x, int planes, const Out<float, 2>& y, const std::optional<In<int64_t, 1>>& pair_out) {
  auto tokens = (int64_t)x.shape(0), hidden = (int64_t)x.shape(1), pairs = (int64_t)pair_row.shape(0);
  auto experts = (int64_t)parts.shape(0);
  if (packed) scheme_of(scheme);
  else require(scheme >= 0 && scheme <= 2, "unknown dense type");
  require(planes == 1 || planes == 2, "planes must be 1 or 2");
  require(hidden > 0 && inner > 0, "hidden and inner must be positive");
  require(parts.shape(1) == 3 && multipliers.shape(0) == parts.shape(0) && multipliers.shape(1) == 3,
          "parts and mults must be [experts, 3]");
  require((int64_t)pair_weight.shape(0) == pairs, "pair_weight and pair_row differ in length");
  check_pairs(parts, pair_start, pair_row, tokens);
  require((int64_t)y.shape(1) == hidden && (pair_out || (int64_t)y.shape(0) == tokens), "y has the wrong shape");
  if (pair_out) {
    require((int64_t)pair_out->shape(0) == pairs, "pair_out and pair_row differ in length");
    check_indices(pair_out->data(), pairs, 0, (int64_t)y.shape(0), "pair_out is outside y");
  }
  MoeArgs a{};
  a.scheme = scheme, a.hidden = hidden, a.inner = inner;
  a.parts = parts.data(), a.multipliers = multipliers.data();
  a.pair_start = pair_start.data(), a.pair_row = pair_row.data(), a.pair_weight = pair_weight.data();
  a.pair_out = pair_out ? pair_out->data() : nullptr;
  a.y = y.data(), a.x = x.data();
  Released released;
  if (packed) moe_packed(a, x.data(), tokens, experts, pairs, planes);
  else moe_dense(a, experts, pairs);
}

// All of a step's experts at once; returns how many distinct ones there are.
int64_t py_moe_all(bool packed, int scheme, int64_t inner, const In<uint64_t, 2>& parts, const In<float, 2>& multipliers,
                   const In<int32_t, 2>& ids, const In<float, 2>& weights, const In<float, 2>& x, int planes,
                   const Out<float, 2>& y) {
  auto tokens = (int64_t)x.shape(0), hidden = (int64_t)x.shape(1), k = (int64_t)ids.shape(1);
  if (packed) scheme_of(scheme);
  else require(scheme >= 0 && scheme <= 2, "unknown dense type");
  require(planes == 1 || planes == 2, "planes must be 1 or 2");
  require(hidden > 0 && inner > 0, "hidden and inner must be positive");
  require(parts.shape(1) == 3 && multipliers.shape(0) == parts.shape(0) && multipliers.shape(1) == 3,
          "parts and mults must be [experts, 3]");
  require((int64_t)ids.shape(0) == tokens && (int64_t)weights.shape(0) == tokens && (int64_t)weights.shape(1) == k,
          "topk_ids and topk_weights must be [tokens, k]");
  require((int64_t)y.shape(0) == tokens && (int64_t)y.shape(1) == hidden, "y has the wrong shape");
  Released released;
  static thread_local Pairs pairs;
  pairs.build(ids.data(), weights.data(), tokens, k, parts.data(), multipliers.data(), (int64_t)parts.shape(0));
  std::memset(y.data(), 0, sizeof(float) * (size_t)(tokens * hidden));
  MoeArgs a{};
  a.scheme = scheme, a.hidden = hidden, a.inner = inner;
  a.parts = pairs.parts.data(), a.multipliers = pairs.multipliers.data();
  a.pair_start = pairs.start.data(), a.pair_row = pairs.row.data(), a.pair_weight = pairs.weight.data();
  a.y = y.data(), a.x = x.data();
  if (packed) moe_packed(a, x.data(), tokens, pairs.experts(), pairs.size(), planes);
  else moe_dense(a, pairs.experts(), pairs.size());
  return pairs.experts();
}

void py_combine(const In<float, 2>& pairs, const In<int64_t, 2>& order, const In<float, 2>& weights,
                const Out<float, 2>& y) {
  require(order.shape(0) == y.shape(0) && weights.shape(0) == y.shape(0) && weights.shape(1) == order.shape(1),
          "order and weights must be [tokens, k]");
  require(pairs.shape(1) == y.shape(1), "pairs and y differ in width");
  check_indices(order.data(), (int64_t)order.size(), -1, (int64_t)pairs.shape(0), "order is outside pairs");
  Released released;
  combine(pairs.data(), order.data(), weights.data(), (int64_t)y.shape(0), (int64_t)order.shape(1),
          (int64_t)y.shape(1), y.data());
}

}  // namespace

void bind_moe(nb::module_& m) {
  m.def("moe", &py_moe, nb::arg("packed"), nb::arg("scheme"), nb::arg("inner"), nb::arg("parts").noconvert(),
        nb::arg("multipliers").noconvert(), nb::arg("pair_start").noconvert(), nb::arg("pair_row").noconvert(),
        nb::arg("pair_weight").noconvert(), nb::arg("x").noconvert(), nb::arg("planes"), nb::arg("y").noconvert(),
        nb::arg("pair_out").noconvert().none());
  m.def("moe_all", &py_moe_all, nb::arg("packed"), nb::arg("scheme"), nb::arg("inner"), nb::arg("parts").noconvert(),
        nb::arg("multipliers").noconvert(), nb::arg("topk_ids").noconvert(), nb::arg("topk_weights").noconvert(),
        nb::arg("x").noconvert(), nb::arg("planes"), nb::arg("y").noconvert());
  m.def("combine", &py_combine, nb::arg("pairs").noconvert(), nb::arg("order").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("y").noconvert());
}

}  // namespace coli
