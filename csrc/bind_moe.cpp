#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "bind_experts.h"

namespace coli {

void run_experts(const ExpertTable& table, const Named& call, Pairs& pairs, const std::vector<int64_t>* some,
                 bool by_pair, float* y) {
  pairs.count(call.ids, call.tokens, call.k, table.count());
  pairs.build(call.ids, call.weights, call.tokens, call.k, table.parts.data(), (int64_t)table.parts.shape(1),
              table.multipliers.data(), some);
  MoeArgs a{};
  a.format = table.format, a.hidden = table.hidden, a.inner = table.inner, a.limit = call.limit;
  a.parts = pairs.parts.data(), a.multipliers = pairs.multipliers.data();
  a.scales = pairs.scales.data(), a.up_first = table.up_first;
  a.pair_start = pairs.start.data(), a.pair_row = pairs.row.data(), a.pair_weight = pairs.weight.data();
  a.pair_out = by_pair ? pairs.place.data() : nullptr;
  a.y = y, a.x = call.x;
  moe(a, call.tokens, pairs.experts(), pairs.size(), table.planes);
}

int64_t run_all_experts(const ExpertTable& table, const Named& call, float* y) {
  PairTables pairs(call.tokens * call.k);
  std::memset(y, 0, sizeof(float) * (size_t)(call.tokens * table.hidden));
  run_experts(table, call, *pairs, nullptr, false, y);
  return (*pairs).experts();
}

namespace {

ExpertTable make_expert_table(int code, int64_t hidden, int64_t inner, int64_t up_first, const In<uint64_t, 2>& parts,
                              const In<float, 2>& multipliers, const In<bool, 1>& at_hand, int planes) {
  Format format = format_of(code);
  require(planes == 1 || planes == 2, "planes must be 1 or 2");
  require(hidden > 0 && inner > 0, "hidden and inner must be positive");
  require((int)parts.shape(1) == 3 * parts_of(format), "parts must be [experts, 3], with scales [experts, 6]");
  require(multipliers.shape(0) == parts.shape(0) && multipliers.shape(1) == 3, "mults must be [experts, 3]");
  require(at_hand.shape(0) == parts.shape(0), "at_hand must be [experts]");
  require(up_first >= 0 && up_first < kScaled, "the first row of up must be within a block of 128");
  return {format, hidden, inner, up_first, parts, multipliers, at_hand, planes};
}

Named named_of(const ExpertTable& table, const In<int32_t, 2>& ids, const In<float, 2>& weights, const In<float, 2>& x,
               float limit) {
  require((int64_t)x.shape(1) == table.hidden, "x must be [tokens, hidden]");
  require(limit > 0, "the limit must be positive");
  require(ids.shape(0) == x.shape(0) && weights.shape(0) == x.shape(0) && weights.shape(1) == ids.shape(1),
          "topk_ids and topk_weights must be [tokens, k]");
  return {ids.data(), weights.data(), (int64_t)x.shape(0), (int64_t)ids.shape(1), x.data(), limit};
}

// All of a step's experts at once; returns how many distinct ones there are.
int64_t py_moe_all(const ExpertTable& table, const In<int32_t, 2>& ids, const In<float, 2>& weights,
                   const In<float, 2>& x, float limit, const Out<float, 2>& y) {
  Named call = named_of(table, ids, weights, x, limit);
  require(y.shape(0) == x.shape(0) && y.shape(1) == x.shape(1), "y has the wrong shape");
  Released released;
  return run_all_experts(table, call, y.data());
}

// Some of a step's experts: into a row a pair, or added to y.
void py_moe_some(const ExpertTable& table, const In<int32_t, 2>& ids, const In<float, 2>& weights,
                 const std::vector<int64_t>& experts, const In<float, 2>& x, float limit, const Out<float, 2>& y,
                 bool by_pair) {
  Named call = named_of(table, ids, weights, x, limit);
  require(y.shape(0) >= (by_pair ? ids.size() : x.shape(0)) && y.shape(1) == x.shape(1), "y has the wrong shape");
  if (experts.empty()) return;
  Released released;
  PairTables pairs((int64_t)ids.size());
  run_experts(table, call, *pairs, &experts, by_pair, y.data());
}

std::vector<int64_t> py_experts_of(const In<int32_t, 2>& ids, int64_t num_experts) {
  require(num_experts > 0, "num_experts must be positive");
  PairTables tables((int64_t)ids.size());
  const auto& counts = (*tables).count(ids.data(), (int64_t)ids.shape(0), (int64_t)ids.shape(1), num_experts);
  std::vector<int64_t> experts;
  for (int64_t e = 0; e < num_experts; e++)
    if (counts[e]) experts.push_back(e);
  return experts;
}

// Every row's pairs in ascending expert id: the order in which they are added.
void py_combine(const In<float, 2>& pairs, const In<int32_t, 2>& ids, const In<float, 2>& weights,
                const Out<float, 2>& y) {
  auto tokens = (int64_t)ids.shape(0), k = (int64_t)ids.shape(1);
  require(ids.shape(0) == y.shape(0) && weights.shape(0) == y.shape(0) && weights.shape(1) == ids.shape(1),
          "topk_ids and topk_weights must be [tokens, k]");
  require(pairs.shape(0) >= ids.size() && pairs.shape(1) == y.shape(1), "pairs has the wrong shape");
  Released released;
  std::vector<int64_t> order(ids.size());
  std::vector<float> sorted(ids.size());
  for (int64_t t = 0; t < tokens; t++) {
    int64_t* mine = order.data() + t * k;
    for (int64_t j = 0; j < k; j++) mine[j] = t * k + j;
    std::sort(mine, mine + k, [&](int64_t a, int64_t b) { return ids.data()[a] < ids.data()[b]; });
    for (int64_t j = 0; j < k; j++) sorted[t * k + j] = weights.data()[mine[j]];
  }
  std::memset(y.data(), 0, sizeof(float) * y.size());
  combine(pairs.data(), order.data(), sorted.data(), tokens, k, (int64_t)y.shape(1), y.data());
}

}  // namespace

void bind_moe(nb::module_& m) {
  nb::class_<ExpertTable>(m, "ExpertTable");
  m.def("expert_table", &make_expert_table, nb::arg("format"), nb::arg("hidden"), nb::arg("inner"),
        nb::arg("up_first"), nb::arg("parts").noconvert(), nb::arg("multipliers").noconvert(),
        nb::arg("at_hand").noconvert(), nb::arg("planes"));
  m.def("moe_all", &py_moe_all, nb::arg("table"), nb::arg("topk_ids").noconvert(), nb::arg("topk_weights").noconvert(),
        nb::arg("x").noconvert(), nb::arg("limit"), nb::arg("y").noconvert());
  m.def("moe_some", &py_moe_some, nb::arg("table"), nb::arg("topk_ids").noconvert(), nb::arg("topk_weights").noconvert(),
        nb::arg("experts"), nb::arg("x").noconvert(), nb::arg("limit"), nb::arg("y").noconvert(), nb::arg("by_pair"));
  m.def("experts_of", &py_experts_of, nb::arg("topk_ids").noconvert(), nb::arg("num_experts"));
  m.def("combine", &py_combine, nb::arg("pairs").noconvert(), nb::arg("topk_ids").noconvert(),
        nb::arg("topk_weights").noconvert(), nb::arg("y").noconvert());
}

}  // namespace coli
