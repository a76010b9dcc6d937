#include "bind_ops.h"

#include "bind.h"
#include "ops_run.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace coli {
namespace {

using In = Array<const float>;
using Out = Array<float>;

template <class A> int64_t last_dim(const A& x) { return x.ndim() ? (int64_t)x.shape(x.ndim() - 1) : 0; }

template <class A> int64_t rows_of(const A& x, const In& w, const Out& out) {
  int64_t n = last_dim(x);
  require(n > 0 && has_shape(w, {n}), "the weight must have the length of x's last dimension");
  require(same_shape(x, out), "out must have the shape of x");
  return (int64_t)x.size() / n;
}

void bind_rows(nb::module_& m) {
  m.def("rms_norm", [](In x, In w, float eps, Out out) {
    int64_t rows = rows_of(x, w, out);
    Released released;
    rms_norm(x.data(), w.data(), eps, out.data(), rows, last_dim(x));
  }, nb::arg("x").noconvert(), nb::arg("w").noconvert(), "eps"_a, nb::arg("out").noconvert());
  m.def("add_rms_norm", [](Out x, Out y, In w, float eps) {
    int64_t rows = rows_of(x, w, y);
    require(x.data() != y.data(), "x and y must be two arrays");
    Released released;
    add_rms_norm(x.data(), y.data(), w.data(), eps, rows, last_dim(x));
  }, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("w").noconvert(), "eps"_a);
  m.def("layer_norm", [](In x, In w, In b, float eps, Out out) {
    int64_t rows = rows_of(x, w, out);
    require(has_shape(b, {last_dim(x)}), "the bias must have the length of x's last dimension");
    Released released;
    layer_norm(x.data(), w.data(), b.data(), eps, out.data(), rows, last_dim(x));
  }, nb::arg("x").noconvert(), nb::arg("w").noconvert(), nb::arg("b").noconvert(), "eps"_a, nb::arg("out").noconvert());
  m.def("softmax", [](In x, Out out) {
    require(x.ndim() == 2 && last_dim(x) > 0 && same_shape(x, out), "softmax takes [rows, n], n > 0, and out alike");
    int64_t bad;
    {
      Released released;
      bad = softmax(x.data(), out.data(), (int64_t)x.shape(0), last_dim(x));
    }
    refuse_row(bad, "every element is -inf: no distribution");
  }, nb::arg("x").noconvert(), nb::arg("out").noconvert());
  m.def("log_sum_exp", [](In x, Array<double> out) {
    require(x.ndim() == 2 && last_dim(x) > 0, "log_sum_exp takes [rows, n], n > 0");
    require(has_shape(out, {(int64_t)x.shape(0)}), "out must be [rows]");
    int64_t bad;
    {
      Released released;
      bad = log_sum_exp(x.data(), out.data(), (int64_t)x.shape(0), last_dim(x));
    }
    refuse_row(bad, "every element is -inf: no distribution");
  }, nb::arg("x").noconvert(), nb::arg("out").noconvert());
}

void bind_elements(nb::module_& m) {
  m.def("silu_mul", [](In gate, In up, float limit, Out out) {
    require(same_shape(gate, up) && same_shape(gate, out), "gate, up and out must have one shape");
    require(limit > 0, "the limit must be positive");
    Released released;
    silu_mul(gate.data(), up.data(), limit, out.data(), (int64_t)gate.size());
  }, nb::arg("gate").noconvert(), nb::arg("up").noconvert(), "limit"_a, nb::arg("out").noconvert());
  m.def("sigmoid", [](In x, Out out) {
    require(same_shape(x, out), "out must have the shape of x");
    Released released;
    sigmoid(x.data(), out.data(), (int64_t)x.size());
  }, nb::arg("x").noconvert(), nb::arg("out").noconvert());
}

void bind_rope(nb::module_& m) {
  m.def("rope_table", [](Array<const int64_t> positions, In inv_freq, float scale, Out cos, Out sin) {
    require(positions.ndim() == 1 && inv_freq.ndim() == 1, "positions and inv_freq must be vectors");
    auto rows = (int64_t)positions.size(), half = (int64_t)inv_freq.size();
    require(has_shape(cos, {rows, half}) && has_shape(sin, {rows, half}), "cos and sin must be [positions, inv_freq]");
    int64_t bad;
    {
      Released released;
      bad = rope_table(positions.data(), inv_freq.data(), scale, cos.data(), sin.data(), rows, half);
    }
    refuse_row(bad, "an angle is not finite or beyond 2^24");
  }, nb::arg("positions").noconvert(), nb::arg("inv_freq").noconvert(), "scale"_a, nb::arg("cos").noconvert(),
     nb::arg("sin").noconvert());
  m.def("apply_rope", [](Out x, In cos, In sin, int64_t offset, bool interleaved) {
    require(x.ndim() == 3 && cos.ndim() == 2 && same_shape(cos, sin), "x must be [rows, heads, dim], cos and sin [rows, half]");
    Rope a{x.data(), cos.data(), sin.data(), (int64_t)x.shape(1), (int64_t)x.shape(2), last_dim(cos), offset, interleaved};
    require(cos.shape(0) == x.shape(0), "cos must have a row for each row of x");
    require(offset >= 0 && offset <= a.dim && 2 * a.half <= a.dim - offset, "the rotated dimensions must lie within a head");
    Released released;
    apply_rope(a, (int64_t)x.shape(0));
  }, nb::arg("x").noconvert(), nb::arg("cos").noconvert(), nb::arg("sin").noconvert(), "offset"_a, "interleaved"_a);
}

void route_rows(Router a, const In& logits, const Array<int32_t>& ids, const Out& weights) {
  require(logits.ndim() == 2 && last_dim(logits) > 0, "logits must be [rows, experts]");
  auto rows = (int64_t)logits.shape(0);
  a.logits = logits.data();
  a.experts = last_dim(logits);
  require(a.groups >= 1 && a.experts % a.groups == 0, "the experts must divide into n_group groups");
  require(a.keep_groups >= 1 && a.keep_groups <= a.groups, "topk_group must be 1 .. n_group");
  require(a.k >= 1 && a.k <= a.experts / a.groups * a.keep_groups, "k must be 1 .. the number of experts to choose from");
  require(has_shape(ids, {rows, a.k}) && has_shape(weights, {rows, a.k}), "ids and weights must be [rows, k]");
  a.ids = ids.data();
  a.weights = weights.data();
  int64_t bad;
  {
    Released released;
    bad = route(a, rows);
  }
  refuse_row(bad, "a router logit is not finite");
}

void bind_routers(nb::module_& m) {
  m.def("softmax_topk", [](In logits, int64_t k, bool renormalize, Array<int32_t> ids, Out weights) {
    route_rows({nullptr, nullptr, nullptr, nullptr, 0, k, 1, 1, renormalize, 1.f}, logits, ids, weights);
  }, nb::arg("logits").noconvert(), "k"_a, "renormalize"_a, nb::arg("ids").noconvert(), nb::arg("weights").noconvert());
  m.def("sigmoid_topk", [](In logits, In bias, int64_t k, int64_t n_group, int64_t topk_group, bool renormalize,
                           float scale, Array<int32_t> ids, Out weights) {
    require(has_shape(bias, {last_dim(logits)}), "the bias must have one element an expert");
    for (size_t i = 0; i < bias.size(); i++)
      require(__builtin_isfinite(bias.data()[i]), "bias of expert " + std::to_string(i) + " is not finite");
    route_rows({nullptr, bias.data(), nullptr, nullptr, 0, k, n_group, topk_group, renormalize, scale}, logits, ids, weights);
  }, nb::arg("logits").noconvert(), nb::arg("bias").noconvert(), "k"_a, "n_group"_a, "topk_group"_a, "renormalize"_a,
     "scale"_a, nb::arg("ids").noconvert(), nb::arg("weights").noconvert());
}

}  // namespace

void bind_ops(nb::module_& m) {
  bind_rows(m);
  bind_elements(m);
  bind_rope(m);
  bind_routers(m);
  bind_attention(m);
}

}  // namespace coli
