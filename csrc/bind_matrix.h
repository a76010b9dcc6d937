// What Python holds of weights: checked and looked up once, so that a product costs Python as little as can be.
#pragma once
#include <vector>

#include "bind_arrays.h"

namespace coli {

struct Matrix {  // with the arrays that its parts lie in
  Weights weights;
  std::vector<Bytes> parts;
};

inline void check_planes(int planes) { require(planes == 1 || planes == 2, "planes must be 1 or 2"); }

}  // namespace coli
