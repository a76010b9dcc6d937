#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "bind.h"
#include "bind_arrays.h"

namespace coli {
void bind_moe(nanobind::module_& m);

namespace {

std::tuple<double, double, int64_t> py_pack(const AnyIn& w, int bits, float multiplier,
                                            const std::optional<Out<uint8_t, 1>>& out) {
  DenseWeights d = dense_of(w);
  Scheme scheme = scheme_of(bits);
  require(multiplier > 0 && multiplier < __builtin_inff(), "multiplier must be positive and finite");
  if (out)
    require((int64_t)out->shape(0) == ceil_div(d.rows, kRows) * block_bytes(scheme, d.cols), "out has the wrong size");
  Released released;
  ScaleRange r = pack(d.data, d.dtype, d.rows, d.cols, scheme, multiplier, out ? out->data() : nullptr);
  return {r.smallest, r.largest, r.bad};
}

void check_product(const In<float, 3>& x, const Out<float, 2>& y, int64_t rows, int64_t cols) {
  int64_t heads = (int64_t)x.shape(1);
  require((int64_t)x.shape(2) == cols, "x and the weights disagree on the number of inputs");
  require(heads > 0 && rows % heads == 0, "the rows of the weights must be a multiple of the heads");
  require(y.shape(0) == x.shape(0) && (int64_t)y.shape(1) == rows, "out has the wrong shape");
}

void py_matmul_packed(const In<float, 3>& x, const In<uint8_t, 1>& data, int bits, int64_t rows, float multiplier,
                      int planes, const Out<float, 2>& y) {
  PackedWeights w = packed_of(data, bits, rows, (int64_t)x.shape(2), multiplier);
  check_product(x, y, rows, w.cols);
  auto heads = (int64_t)x.shape(1);
  require(heads == 1 || rows / heads % kRows == 0, "packed heads must have a multiple of 16 rows");
  require(planes == 1 || planes == 2, "planes must be 1 or 2");
  Released released;
  matmul(w, x.data(), (int64_t)x.shape(0), heads, planes, y.data());
}

void py_matmul_dense(const In<float, 3>& x, const AnyIn& weights, const Out<float, 2>& y) {
  DenseWeights w = dense_of(weights);
  check_product(x, y, w.rows, w.cols);
  Released released;
  matmul(w, x.data(), (int64_t)x.shape(0), (int64_t)x.shape(1), y.data());
}

void check_embed(const In<int64_t, 1>& ids, int64_t rows, int64_t cols, const Out<float, 2>& y) {
  require(y.shape(0) == ids.shape(0) && (int64_t)y.shape(1) == cols, "out has the wrong shape");
  for (size_t i = 0; i < ids.shape(0); i++)
    if (int64_t id = ids.data()[i]; id < 0 || id >= rows)
      throw nb::index_error(("id " + std::to_string(id) + " is outside 0.." + std::to_string(rows - 1)).c_str());
}

void py_embed_packed(const In<int64_t, 1>& ids, const In<uint8_t, 1>& data, int bits, int64_t rows, float multiplier,
                     const Out<float, 2>& y) {
  PackedWeights w = packed_of(data, bits, rows, (int64_t)y.shape(1), multiplier);
  check_embed(ids, rows, w.cols, y);
  Released released;
  embed(w, ids.data(), (int64_t)ids.shape(0), y.data());
}

void py_embed_dense(const In<int64_t, 1>& ids, const AnyIn& weights, const Out<float, 2>& y) {
  DenseWeights w = dense_of(weights);
  check_embed(ids, w.rows, w.cols, y);
  Released released;
  embed(w, ids.data(), (int64_t)ids.shape(0), y.data());
}

}  // namespace

void bind_matmul(nb::module_& m) {
  m.def("pack", &py_pack, nb::arg("w").noconvert(), nb::arg("bits"), nb::arg("multiplier"),
        nb::arg("out").noconvert().none());
  m.def("matmul_packed", &py_matmul_packed, nb::arg("x").noconvert(), nb::arg("data").noconvert(), nb::arg("bits"),
        nb::arg("rows"), nb::arg("multiplier"), nb::arg("planes"), nb::arg("out").noconvert());
  m.def("matmul_dense", &py_matmul_dense, nb::arg("x").noconvert(), nb::arg("w").noconvert(),
        nb::arg("out").noconvert());
  m.def("embed_packed", &py_embed_packed, nb::arg("ids").noconvert(), nb::arg("data").noconvert(), nb::arg("bits"),
        nb::arg("rows"), nb::arg("multiplier"), nb::arg("out").noconvert());
  m.def("embed_dense", &py_embed_dense, nb::arg("ids").noconvert(), nb::arg("w").noconvert(),
        nb::arg("out").noconvert());
  bind_moe(m);
}

}  // namespace coli
