// Hyper-connections: the weights of a half, checked once, and the calls around it.
#include "bind.h"
#include "bind_layer.h"
#include "hyper_run.h"

namespace coli {
namespace {

using Streams = Out<float, 3>;  // [rows, streams, n]

struct HyperHandle {
  Matrix fn;
  In<float, 1> base, scale;
  HyperMix mix;
};

HyperHandle make_hyper(const Matrix& fn, const In<float, 1>& base, const In<float, 1>& scale, int64_t streams,
                       int64_t iterations, float norm_eps, float eps) {
  require(streams >= 1 && streams <= kMaxStreams, "there must be 1 .. 8 streams");
  require(iterations >= 1, "there must be an iteration");
  HyperShape s{streams, fn.weights.cols / streams, iterations, norm_eps, eps};
  require(s.n * streams == fn.weights.cols, "the inputs of fn must divide into the streams");
  require(fn.weights.rows == s.mixes() && (int64_t)base.shape(0) == s.mixes(), "fn and base must have a row a mix");
  require(scale.shape(0) == 3, "there must be a scale for each kind of mix");
  return {fn, base, scale, {s, fn.weights, base.data(), scale.data()}};
}

// Whether `flat` [rows, n] is a stream's worth for each row of x.
void check_rows(const Streams& x, const Floats& flat) {
  require(x.shape(0) == flat.shape(0) && x.shape(2) == flat.shape(1), "a row must be as wide as a stream");
}
void check_out(const Streams& x, const Floats& out) {
  require(x.shape(0) == out.shape(0) && x.shape(1) == out.shape(1), "out must be [rows, streams]");
}

HyperShape shape_of(const Streams& x) {
  require(x.shape(1) >= 1 && (int64_t)x.shape(1) <= kMaxStreams && x.shape(2) > 0, "x must be [rows, 1 .. 8 streams, n]");
  return {(int64_t)x.shape(1), (int64_t)x.shape(2), 1, 0.f, 0.f};
}

void py_enter(const HyperHandle& hyper, const Streams& x, const Floats& h, const Floats& out) {
  const HyperShape& s = hyper.mix.shape;
  require((int64_t)x.shape(1) == s.streams && (int64_t)x.shape(2) == s.n, "x has other streams");
  check_rows(x, h);
  check_out(x, out);
  Released released;
  hyper_enter(hyper.mix, x.data(), (int64_t)x.shape(0), h.data(), out.data());
}

void py_leave(const Streams& x, const Floats& out, const Floats& y) {
  HyperShape s = shape_of(x);
  check_rows(x, y);
  check_out(x, out);
  Released released;
  hyper_leave(s, out.data(), y.data(), (int64_t)x.shape(0), x.data());
}

void py_mean(const Streams& x, const Floats& y) {
  HyperShape s = shape_of(x);
  check_rows(x, y);
  Released released;
  hyper_mean(s, x.data(), (int64_t)x.shape(0), y.data());
}

}  // namespace

void bind_hyper(nb::module_& m) {
  nb::class_<HyperHandle>(m, "HyperMix");
  m.def("hyper_mix", &make_hyper, nb::arg("fn"), nb::arg("base").noconvert(), nb::arg("scale").noconvert(),
        nb::arg("streams"), nb::arg("iterations"), nb::arg("norm_eps"), nb::arg("eps"));
  m.def("hyper_enter", &py_enter, nb::arg("mix"), nb::arg("x").noconvert(), nb::arg("h").noconvert(),
        nb::arg("out").noconvert());
  m.def("hyper_leave", &py_leave, nb::arg("x").noconvert(), nb::arg("out").noconvert(), nb::arg("y").noconvert());
  m.def("hyper_mean", &py_mean, nb::arg("x").noconvert(), nb::arg("y").noconvert());
}

}  // namespace coli
