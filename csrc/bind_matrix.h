// What Python holds of weights: checked and looked up once, so that a product costs Python as little as can be.
#pragma once
#include <variant>

#include "bind_arrays.h"

namespace coli {

struct Matrix {  // with the arrays that the weights, and the scales of e4m3, lie in
  Weights weights;
  std::variant<In<uint8_t, 1>, In<uint8_t, 2>, AnyIn> owner;
  AnyIn scales = {};
};

inline void check_planes(int planes) { require(planes == 1 || planes == 2, "planes must be 1 or 2"); }

}  // namespace coli
