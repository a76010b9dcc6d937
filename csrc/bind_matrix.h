// What Python holds of weights: checked and looked up once, so that a product costs Python as little as can be.
#pragma once
#include <variant>

#include "bind_arrays.h"

namespace coli {

struct Matrix {  // with the array that the weights lie in
  Weights weights;
  std::variant<In<uint8_t, 1>, AnyIn> owner;
};

inline void check_planes(int planes) { require(planes == 1 || planes == 2, "planes must be 1 or 2"); }

}  // namespace coli
