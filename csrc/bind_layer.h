// What the bindings of a layer's halves share: objects that are checked once, when a model is built.
#pragma once
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "bind_matrix.h"
#include "layer.h"

namespace coli {

using Floats = Out<float, 2>;  // [rows, n]

struct NormHandle {
  In<float, 1> weight;
  Norm norm;
};

struct Projections {  // of one input, with what keeps their arrays alive
  std::vector<Matrix> matrices;
  std::vector<std::optional<In<float, 1>>> biases;
  std::vector<Affine> affine;
  int planes;
  int64_t cols() const { return affine[0].weights.cols; }
};

// The one of them; a call that takes a single matrix says which.
inline const Affine& only(const Projections& p, int64_t inputs, int64_t outputs, const char* message) {
  require(p.affine.size() == 1 && p.cols() == inputs && p.affine[0].weights.rows == outputs, message);
  return p.affine[0];
}

inline Stream stream_of(const Floats& x, const Floats& y, bool add, const NormHandle& norm) {
  require((int64_t)x.shape(1) == norm.norm.n, "the norm must have the length of x's rows");
  require(x.shape(0) == y.shape(0) && x.shape(1) == y.shape(1), "y must have the shape of x");
  require(!add || x.data() != y.data(), "x and y must be two arrays");
  return {x.data(), y.data(), (int64_t)x.shape(0), add, norm.norm};
}

// Of a bench: rows of a table one after the other, instead of what a rule chooses. No weights: the rule's.
struct GivenChoices {
  In<int32_t, 2> ids;
  std::optional<In<float, 2>> weights;
  int64_t position = 0;         // of the next rows
  std::vector<int64_t> places;  // of those of a step with as many, each for itself

  std::vector<int64_t> next(int64_t rows) const;
  void check(int64_t rows, int64_t experts, int64_t k) const;
  void take(int64_t rows, int32_t* to_ids, float* to_weights);
};

struct RouteRule {
  std::optional<In<float, 1>> bias;
  Router router;  // without its rows
  GivenChoices* given = nullptr;
};

// The choice of a step's rows, checked.
struct Routing {
  const Affine& logits;
  int planes;
  Router router;
  GivenChoices* given;
};
Routing routing_of(const Stream& s, const Projections& gate, const RouteRule& rule, int32_t* ids, float* weights);
template <class Ids, class Weights>  // [..., rows, k] both
void check_choice(const Ids& ids, const Weights& weights, int64_t rows, const RouteRule& rule) {
  size_t last = ids.ndim() - 1;
  require((int64_t)ids.shape(last) == rule.router.k && (int64_t)ids.shape(last - 1) == rows, "ids and weights must be [rows, k]");
  for (size_t i = 0; i <= last; i++) require(ids.shape(i) == weights.shape(i), "ids and weights must be [rows, k]");
}
// Without the GIL: s.y becomes the norm; a row with a logit that is not finite, or -1.
int64_t norm_route(const Stream& s, Routing& routing);
void refuse_row(int64_t row);  // unless it is -1

void bind_grouped(nanobind::module_& m);
void bind_routed(nanobind::module_& m);
void bind_given(nanobind::module_& m);
void bind_walk(nanobind::module_& m);

}  // namespace coli
