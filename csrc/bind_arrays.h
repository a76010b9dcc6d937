// Array types of the bindings: C-contiguous, never converted. Shapes are checked with require().
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <vector>

#include "matmul.h"
#include "released.h"

namespace coli {

namespace nb = nanobind;

template <class T, int Dims> using In = nb::ndarray<const T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
template <class T, int Dims> using Out = nb::ndarray<T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;  // of any shape and type

inline void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

inline Format format_of(int code) {
  require(code >= 0 && code < kFormats, "unknown format");
  return (Format)code;
}

// Weights in these arrays, whose element types only say how Python sees the bytes.
inline Weights weights_of(Format format, int64_t rows, int64_t cols, const std::vector<Bytes>& parts, float multiplier,
                          int64_t first) {
  require(rows > 0 && cols > 0, "weights are empty");
  require(first >= 0 && first < kScaled, "the first row must be within a block of 128");
  require((int)parts.size() == parts_of(format), "wrong number of arrays for this format");
  for (int i = 0; i < (int)parts.size(); i++)
    require((int64_t)parts[i].nbytes() == part_bytes(format, i, rows, cols, first),
            "an array has the wrong size for the shape of the weights");
  Weights w{(const uint8_t*)parts[0].data(), format, rows, cols, {}, multiplier};
  if (parts.size() > 1) w.scales = {(const uint8_t*)parts[1].data(), first};
  return w;
}

}  // namespace coli
