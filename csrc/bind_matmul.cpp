#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "bind.h"
#include "bind_matrix.h"

namespace coli {
void bind_moe(nanobind::module_& m);
void bind_layer(nanobind::module_& m);
void bind_delta(nanobind::module_& m);
void bind_hyper(nanobind::module_& m);

namespace {

using Any = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;  // of any number of dimensions

std::tuple<double, double, int64_t> py_pack(const AnyIn& w, int bits, float multiplier,
                                            const std::optional<Out<uint8_t, 1>>& out) {
  DenseWeights d = dense_of(w);
  Scheme scheme = scheme_of(bits);
  require(scheme != Scheme::int3, "weights are packed to 4 or 8 bits, and narrowed to 3");
  require(multiplier > 0 && multiplier < __builtin_inff(), "multiplier must be positive and finite");
  if (out)
    require((int64_t)out->shape(0) == ceil_div(d.rows, kRows) * block_bytes(scheme, d.cols), "out has the wrong size");
  Released released;
  ScaleRange r = pack(d.data, d.dtype, d.rows, d.cols, scheme, multiplier, out ? out->data() : nullptr);
  return {r.smallest, r.largest, r.bad};
}

double py_narrow(const In<uint8_t, 1>& data, int bits, int64_t rows, int64_t cols, const Out<uint8_t, 1>& out) {
  PackedWeights w = packed_of(data, bits, rows, cols, 1.f);
  require(w.scheme != Scheme::int3, "the weights are at 3 bits already");
  require((int64_t)out.shape(0) == ceil_div(rows, kRows) * block_bytes(Scheme::int3, cols), "out has the wrong size");
  Released released;
  narrow(w.data, rows, cols, w.scheme, out.data());
  return narrow_factor(w.scheme);
}

Matrix packed_matrix(const In<uint8_t, 1>& data, int bits, int64_t rows, int64_t cols, float multiplier) {
  return {packed_of(data, bits, rows, cols, multiplier), data};
}

Matrix dense_matrix(const AnyIn& w) { return {dense_of(w), w}; }

Product product_of(const Matrix& w, const Any& x, int64_t heads, const Out<float, 2>& y) {
  int64_t rows = rows_of(w.weights);
  require((int64_t)x.shape(x.ndim() - 1) == cols_of(w.weights), "x and the weights disagree on the number of inputs");
  require(heads > 0 && rows % heads == 0, "the rows of the weights must be a multiple of the heads");
  require(heads == 1 || !is_packed(w.weights) || rows / heads % kRows == 0,
          "packed heads must have a multiple of 16 rows");
  require(y.shape(0) == x.shape(0) && (int64_t)y.shape(1) == rows, "out has the wrong shape");
  return {w.weights, y.data()};
}

void run(std::span<const Product> products, const Any& x, int64_t heads, int planes) {
  Released released;
  matmul(products, x.data(), (int64_t)x.shape(0), heads, planes);
}

void py_matmul(const Any& x, const Matrix& w, int planes, const Out<float, 2>& y) {
  require(x.ndim() == 2, "x must be [tokens, inputs]");
  check_planes(planes);
  Product product = product_of(w, x, 1, y);
  run({&product, 1}, x, 1, planes);
}

void py_matmul_heads(const Any& x, const Matrix& w, int planes, const Out<float, 2>& y) {
  require(x.ndim() == 3, "x must be [tokens, heads, inputs]");
  check_planes(planes);
  Product product = product_of(w, x, (int64_t)x.shape(1), y);
  run({&product, 1}, x, (int64_t)x.shape(1), planes);
}

void py_embed(const In<int64_t, 1>& ids, const Matrix& w, const Out<float, 2>& y) {
  int64_t rows = rows_of(w.weights);
  require(y.shape(0) == ids.shape(0) && (int64_t)y.shape(1) == cols_of(w.weights), "out has the wrong shape");
  for (size_t i = 0; i < ids.shape(0); i++)
    if (int64_t id = ids.data()[i]; id < 0 || id >= rows)
      throw nb::index_error(("id " + std::to_string(id) + " is outside 0.." + std::to_string(rows - 1)).c_str());
  Released released;
  embed(w.weights, ids.data(), (int64_t)ids.shape(0), y.data());
}

}  // namespace

void bind_matmul(nb::module_& m) {
  nb::class_<Matrix>(m, "Matrix");
  m.def("pack", &py_pack, nb::arg("w").noconvert(), nb::arg("bits"), nb::arg("multiplier"),
        nb::arg("out").noconvert().none());
  m.def("narrow", &py_narrow, nb::arg("data").noconvert(), nb::arg("bits"), nb::arg("rows"), nb::arg("cols"),
        nb::arg("out").noconvert());
  m.def("packed_matrix", &packed_matrix, nb::arg("data").noconvert(), nb::arg("bits"), nb::arg("rows"),
        nb::arg("cols"), nb::arg("multiplier"));
  m.def("dense_matrix", &dense_matrix, nb::arg("w").noconvert());
  m.def("matmul", &py_matmul, nb::arg("x").noconvert(), nb::arg("w"), nb::arg("planes"), nb::arg("out").noconvert());
  m.def("matmul_heads", &py_matmul_heads, nb::arg("x").noconvert(), nb::arg("w"), nb::arg("planes"),
        nb::arg("out").noconvert());
  m.def("embed", &py_embed, nb::arg("ids").noconvert(), nb::arg("w"), nb::arg("out").noconvert());
  bind_moe(m);
  bind_layer(m);
  bind_delta(m);
  bind_hyper(m);
}

}  // namespace coli
