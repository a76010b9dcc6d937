#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

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

Matrix make_matrix(int format, int64_t rows, int64_t cols, const std::vector<Bytes>& parts, float multiplier,
                   int64_t first) {
  return {weights_of(format_of(format), rows, cols, parts, multiplier, first), parts};
}

std::tuple<double, double, int64_t> py_pack(const Matrix& w, int code, float multiplier,
                                            const std::optional<Out<uint8_t, 1>>& out) {
  Format format = format_of(code);
  require(w.weights.format <= Format::bf16, "only floats are packed");
  require(format == Format::int4 || format == Format::int8, "weights are packed to int4 or int8, and narrowed to int3");
  require(multiplier > 0 && multiplier < __builtin_inff(), "multiplier must be positive and finite");
  if (out)
    require((int64_t)out->shape(0) == part_bytes(format, 0, w.weights.rows, w.weights.cols, 0), "out has the wrong size");
  Released released;
  ScaleRange r = pack(w.weights, format, multiplier, out ? out->data() : nullptr);
  return {r.smallest, r.largest, r.bad};
}

double py_narrow(const Matrix& w, const Out<uint8_t, 1>& out) {
  Format format = w.weights.format;
  require(format == Format::int4 || format == Format::int8, "only int4 and int8 are narrowed");
  require((int64_t)out.shape(0) == part_bytes(Format::int3, 0, w.weights.rows, w.weights.cols, 0), "out has the wrong size");
  Released released;
  narrow(w.weights, out.data());
  return narrow_factor(format);
}

int64_t py_decode(const Matrix& w, const std::optional<Out<float, 2>>& out) {
  if (out)
    require((int64_t)out->shape(0) == w.weights.rows && (int64_t)out->shape(1) == w.weights.cols, "out has the wrong shape");
  Released released;
  return decode(w.weights, out ? out->data() : nullptr);
}

Product product_of(const Matrix& w, const Any& x, int64_t heads, const Out<float, 2>& y) {
  int64_t rows = w.weights.rows;
  require((int64_t)x.shape(x.ndim() - 1) == w.weights.cols, "x and the weights disagree on the number of inputs");
  require(heads > 0 && rows % heads == 0, "the rows of the weights must be a multiple of the heads");
  require(heads == 1 || !is_packed(w.weights.format) || rows / heads % kRows == 0,
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
  int64_t rows = w.weights.rows;
  require(y.shape(0) == ids.shape(0) && (int64_t)y.shape(1) == w.weights.cols, "out has the wrong shape");
  for (size_t i = 0; i < ids.shape(0); i++)
    if (int64_t id = ids.data()[i]; id < 0 || id >= rows)
      throw nb::index_error(("id " + std::to_string(id) + " is outside 0.." + std::to_string(rows - 1)).c_str());
  Released released;
  embed(w.weights, ids.data(), (int64_t)ids.shape(0), y.data());
}

}  // namespace

void bind_matmul(nb::module_& m) {
  nb::class_<Matrix>(m, "Matrix");
  m.def("matrix", &make_matrix, nb::arg("format"), nb::arg("rows"), nb::arg("cols"), nb::arg("parts").noconvert(),
        nb::arg("multiplier"), nb::arg("first"));
  m.def("pack", &py_pack, nb::arg("w"), nb::arg("format"), nb::arg("multiplier"), nb::arg("out").noconvert().none());
  m.def("narrow", &py_narrow, nb::arg("w"), nb::arg("out").noconvert());
  m.def("decode", &py_decode, nb::arg("w"), nb::arg("out").noconvert().none());
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
