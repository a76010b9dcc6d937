#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "bind_arrays.h"
#include "pairs.h"

namespace coli {
namespace {

constexpr int64_t kKeptPairs = 1 << 16;

// Tables of small calls are kept, so that decoding does not allocate; those of a long prompt are not.
class PairTables {
 public:
  explicit PairTables(int64_t pairs) {
    static thread_local Pairs kept;
    tables_ = pairs <= kKeptPairs ? &kept : &own_.emplace();
  }
  Pairs& operator*() const { return *tables_; }

 private:
  std::optional<Pairs> own_;
  Pairs* tables_;
};

struct Layer {  // the arguments that all calls share
  bool packed;
  int scheme;
  int64_t inner;
  float limit;
  const In<uint64_t, 2>& parts;
  const In<float, 2>& multipliers;
  const In<int32_t, 2>& ids;
  const In<float, 2>& weights;
  const In<float, 2>& x;
  int planes;

  int64_t tokens() const { return (int64_t)x.shape(0); }
  int64_t hidden() const { return (int64_t)x.shape(1); }
  int64_t k() const { return (int64_t)ids.shape(1); }

  void check() const {
    if (packed) scheme_of(scheme);
    else require(scheme >= 0 && scheme <= 2, "unknown dense type");
    require(planes == 1 || planes == 2, "planes must be 1 or 2");
    require(limit > 0, "the limit must be positive");
    require(hidden() > 0 && inner > 0, "hidden and inner must be positive");
    require(parts.shape(1) == 3 && multipliers.shape(0) == parts.shape(0) && multipliers.shape(1) == 3,
            "parts and mults must be [experts, 3]");
    require(ids.shape(0) == x.shape(0) && weights.shape(0) == x.shape(0) && weights.shape(1) == ids.shape(1),
            "topk_ids and topk_weights must be [tokens, k]");
  }

  void run(Pairs& pairs, const std::vector<int64_t>* some, bool by_pair, float* y) const {
    pairs.count(ids.data(), tokens(), k(), (int64_t)parts.shape(0));
    pairs.build(ids.data(), weights.data(), tokens(), k(), parts.data(), multipliers.data(), some);
    MoeArgs a{};
    a.scheme = scheme, a.hidden = hidden(), a.inner = inner, a.limit = limit;
    a.parts = pairs.parts.data(), a.multipliers = pairs.multipliers.data();
    a.pair_start = pairs.start.data(), a.pair_row = pairs.row.data(), a.pair_weight = pairs.weight.data();
    a.pair_out = by_pair ? pairs.place.data() : nullptr;
    a.y = y, a.x = x.data();
    if (packed) moe_packed(a, x.data(), tokens(), pairs.experts(), pairs.size(), planes);
    else moe_dense(a, pairs.experts(), pairs.size());
  }
};

// All of a step's experts at once; returns how many distinct ones there are.
int64_t py_moe_all(bool packed, int scheme, int64_t inner, float limit, const In<uint64_t, 2>& parts,
                   const In<float, 2>& multipliers, const In<int32_t, 2>& ids, const In<float, 2>& weights,
                   const In<float, 2>& x, int planes, const Out<float, 2>& y) {
  Layer layer{packed, scheme, inner, limit, parts, multipliers, ids, weights, x, planes};
  layer.check();
  require(y.shape(0) == x.shape(0) && y.shape(1) == x.shape(1), "y has the wrong shape");
  Released released;
  PairTables tables((int64_t)ids.size());
  std::memset(y.data(), 0, sizeof(float) * y.size());
  layer.run(*tables, nullptr, false, y.data());
  return (*tables).experts();
}

// Some of a step's experts: into a row a pair, or added to y.
void py_moe_some(bool packed, int scheme, int64_t inner, float limit, const In<uint64_t, 2>& parts,
                 const In<float, 2>& multipliers, const In<int32_t, 2>& ids, const In<float, 2>& weights,
                 const std::vector<int64_t>& experts, const In<float, 2>& x, int planes, const Out<float, 2>& y,
                 bool by_pair) {
  Layer layer{packed, scheme, inner, limit, parts, multipliers, ids, weights, x, planes};
  layer.check();
  require(y.shape(0) >= (by_pair ? ids.size() : x.shape(0)) && y.shape(1) == x.shape(1), "y has the wrong shape");
  if (experts.empty()) return;
  Released released;
  PairTables tables((int64_t)ids.size());
  layer.run(*tables, &experts, by_pair, y.data());
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
  m.def("moe_all", &py_moe_all, nb::arg("packed"), nb::arg("scheme"), nb::arg("inner"), nb::arg("limit"),
        nb::arg("parts").noconvert(), nb::arg("multipliers").noconvert(), nb::arg("topk_ids").noconvert(),
        nb::arg("topk_weights").noconvert(), nb::arg("x").noconvert(), nb::arg("planes"), nb::arg("y").noconvert());
  m.def("moe_some", &py_moe_some, nb::arg("packed"), nb::arg("scheme"), nb::arg("inner"), nb::arg("limit"),
        nb::arg("parts").noconvert(), nb::arg("multipliers").noconvert(), nb::arg("topk_ids").noconvert(),
        nb::arg("topk_weights").noconvert(), nb::arg("experts"), nb::arg("x").noconvert(), nb::arg("planes"),
        nb::arg("y").noconvert(), nb::arg("by_pair"));
  m.def("experts_of", &py_experts_of, nb::arg("topk_ids").noconvert(), nb::arg("num_experts"));
  m.def("combine", &py_combine, nb::arg("pairs").noconvert(), nb::arg("topk_ids").noconvert(),
        nb::arg("topk_weights").noconvert(), nb::arg("y").noconvert());
}

}  // namespace coli
