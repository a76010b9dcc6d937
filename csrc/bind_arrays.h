// Array types of the bindings: C-contiguous, never converted. Shapes are checked with require().
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "matmul.h"
#include "released.h"

namespace coli {

namespace nb = nanobind;

template <class T, int Dims> using In = nb::ndarray<const T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
template <class T, int Dims> using Out = nb::ndarray<T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
using AnyIn = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // float32 | float16 | uint16 (bf16)

inline void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

inline Scheme scheme_of(int bits) {
  require(bits == 3 || bits == 4 || bits == 8, "scheme must be 3, 4 or 8 bits");
  return (Scheme)bits;
}

inline Dtype dtype_of(nb::dlpack::dtype d) {
  if (d == nb::dtype<float>()) return Dtype::f32;
  if (d == nb::dtype<uint16_t>()) return Dtype::bf16;
  require(d.code == (uint8_t)nb::dlpack::dtype_code::Float && d.bits == 16 && d.lanes == 1,
          "weights must be float32, float16 or uint16 (bf16)");
  return Dtype::f16;
}

inline PackedWeights packed_of(const In<uint8_t, 1>& data, int bits, int64_t rows, int64_t cols, float multiplier) {
  Scheme s = scheme_of(bits);
  require(rows > 0 && cols > 0 && (int64_t)data.shape(0) == ceil_div(rows, kRows) * block_bytes(s, cols),
          "packed data has the wrong size for its shape");
  return {data.data(), s, rows, cols, multiplier};
}

inline DenseWeights dense_of(const AnyIn& w) {
  Dtype d = dtype_of(w.dtype());
  require(w.shape(0) > 0 && w.shape(1) > 0, "weights are empty");
  return {(const uint8_t*)w.data(), d, (int64_t)w.shape(0), (int64_t)w.shape(1)};
}

// e4m3 codes with a scale a block; `first`: where the first row is in its block.
inline DenseWeights fp8_of(const In<uint8_t, 2>& codes, const AnyIn& scales, int64_t first) {
  nb::dlpack::dtype d = scales.dtype();
  Dtype dtype = d == nb::dtype<float>() ? Dtype::e4m3 : d == nb::dtype<uint16_t>() ? Dtype::e4m3_bf16 : Dtype::e4m3_ue8m0;
  require(dtype != Dtype::e4m3_ue8m0 || d == nb::dtype<uint8_t>(),
          "scales must be float32, uint16 (bf16) or uint8 (ue8m0)");
  auto rows = (int64_t)codes.shape(0), cols = (int64_t)codes.shape(1);
  require(rows > 0 && cols > 0, "weights are empty");
  require(first >= 0 && first < kScaled, "the first row must be within a block of 128");
  require((int64_t)scales.shape(0) == ceil_div(first + rows, kScaled) && (int64_t)scales.shape(1) == ceil_div(cols, kScaled),
          "there must be one scale for each block of 128 x 128");
  return {codes.data(), dtype, rows, cols, {(const uint8_t*)scales.data(), first}};
}

}  // namespace coli
