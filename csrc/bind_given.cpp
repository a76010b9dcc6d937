// A choice of experts that is given: what the bench measures must not depend on random weights, nor cost more than a
// model's own choice.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "bind_layer.h"

namespace coli {

std::vector<int64_t> GivenChoices::next(int64_t rows) const {
  if (rows == (int64_t)places.size()) return places;
  std::vector<int64_t> found((size_t)rows);
  std::iota(found.begin(), found.end(), position);
  return found;
}

void GivenChoices::check(int64_t rows, int64_t experts, int64_t k) const {
  require(ids.is_valid() && (int64_t)ids.shape(1) == k, "the table must have the rule's k");
  for (int64_t row : next(rows)) {
    require(row >= 0 && row < (int64_t)ids.shape(0), "the table ends before these rows");
    for (int64_t j = 0; j < k; j++) {
      int32_t expert = ids.data()[row * k + j];
      require(expert >= 0 && expert < experts, "the table names an expert that there is not");
    }
  }
}

void GivenChoices::take(int64_t rows, int32_t* to_ids, float* to_weights) {
  auto k = (int64_t)ids.shape(1);
  for (int64_t row : next(rows)) {
    to_ids = std::copy_n(ids.data() + row * k, k, to_ids);
    if (weights) to_weights = std::copy_n(weights->data() + row * k, k, to_weights);
  }
  if (rows != (int64_t)places.size()) position += rows;
  else
    for (int64_t& place : places) place++;
}

namespace {

void set_table(GivenChoices& given, const In<int32_t, 2>& ids, const std::optional<In<float, 2>>& weights) {
  require(!weights || (weights->shape(0) == ids.shape(0) && weights->shape(1) == ids.shape(1)),
          "weights must have the shape of ids");
  given.ids = ids, given.weights = weights;
}

void py_take(GivenChoices& given, const Out<int32_t, 2>& ids, const Floats& weights) {
  require(ids.shape(0) == weights.shape(0) && ids.shape(1) == weights.shape(1), "ids and weights must be [rows, k]");
  given.check((int64_t)ids.shape(0), INT32_MAX, (int64_t)ids.shape(1));
  given.take((int64_t)ids.shape(0), ids.data(), weights.data());
}

RouteRule make_given_rule(const RouteRule& rule, GivenChoices& given) {
  RouteRule with = rule;
  with.given = &given;
  return with;
}

}  // namespace

void bind_given(nb::module_& m) {
  nb::class_<GivenChoices>(m, "GivenChoices")
      .def(nb::init<>())
      .def("set", &set_table, nb::arg("ids").noconvert(), nb::arg("weights").noconvert().none())
      .def("next", &GivenChoices::next, nb::arg("rows"))
      .def("take", &py_take, nb::arg("ids").noconvert(), nb::arg("weights").noconvert())
      .def_rw("position", &GivenChoices::position)
      .def_rw("places", &GivenChoices::places);
  m.def("given_rule", &make_given_rule, nb::arg("rule"), nb::arg("given"), nb::keep_alive<0, 1>(),
        nb::keep_alive<0, 2>());
}

}  // namespace coli
