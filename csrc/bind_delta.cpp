// The delta rule of a layer: objects checked once, and one call for all between its projections.
#include <algorithm>

#include "bind.h"
#include "bind_layer.h"
#include "delta_run.h"

namespace coli {
namespace {

struct RecurrentHandle {
  Out<float, 2> window;
  Out<float, 3> matrix;
};

struct DeltaRule {
  In<float, 2> conv;
  std::vector<float> gain;
  In<float, 1> bias, norm;
  DeltaShape shape;
};

DeltaRule make_delta_rule(const In<float, 2>& conv, int64_t heads, int64_t key_heads, int64_t key_dim, int64_t value_dim,
                          const In<float, 1>& a_log, const In<float, 1>& bias, std::optional<float> lower,
                          const In<float, 1>& norm, float eps, bool silu) {
  require(key_dim > 0 && value_dim > 0 && key_heads > 0 && heads > 0 && heads % key_heads == 0,
          "the heads must divide into key_heads groups");
  DeltaShape s{heads, key_heads, key_dim, value_dim, (int64_t)conv.shape(0), false, lower.has_value(), silu, lower.value_or(0.f), eps};
  auto gates = (int64_t)bias.shape(0);
  require(gates == heads || gates == heads * key_dim, "the gate's bias must have an element a head, or a key dimension");
  s.per_channel = gates != heads;
  require(a_log.shape(0) == bias.shape(0), "a_log must be as long as the gate's bias");
  require(s.taps >= 1 && s.taps <= kMaxTaps && (int64_t)conv.shape(1) == s.channels(), "conv must be [1..8 taps, q + k + v]");
  require((int64_t)norm.shape(0) == value_dim, "the norm must be as long as a head's value");
  std::vector<float> gain((size_t)gates);
  exp_of(a_log.data(), gain.data(), gates);
  return {conv, std::move(gain), bias, norm, s};
}

RecurrentHandle make_recurrent(const Out<float, 2>& window, const Out<float, 3>& matrix) { return {window, matrix}; }

Recurrent recurrent_of(const DeltaShape& s, const RecurrentHandle& r) {
  require((int64_t)r.window.shape(0) == s.taps - 1 && (int64_t)r.window.shape(1) == s.channels() &&
              (int64_t)r.matrix.shape(0) == s.heads && (int64_t)r.matrix.shape(1) == s.key_dim &&
              (int64_t)r.matrix.shape(2) == s.value_dim,
          "a state has another shape");
  return {r.window.data(), r.matrix.data()};
}

using Before = std::vector<std::optional<RecurrentHandle*>>;

std::vector<DeltaPart> parts_of(const DeltaShape& s, int64_t rows, const std::vector<int64_t>& stops, const Before& before,
                                const std::vector<RecurrentHandle*>& after) {
  require(!stops.empty() && stops.back() == rows, "the last sequence must stop at the last row");
  require(before.size() == stops.size() && after.size() == stops.size(), "there must be a state a sequence");
  std::vector<DeltaPart> parts;
  int64_t row = 0;
  for (size_t i = 0; i < stops.size(); i++) {
    require(stops[i] > row, "every sequence must have a row");
    Recurrent old = before[i] ? recurrent_of(s, **before[i]) : Recurrent{};
    parts.push_back({row, stops[i], old, recurrent_of(s, *after[i])});
    row = stops[i];
  }
  return parts;
}

std::vector<DeltaInput> inputs_of(const DeltaShape& s, const std::vector<Floats>& arrays) {
  require(!arrays.empty(), "there must be an input");
  std::vector<DeltaInput> inputs;
  int64_t width = 0;
  for (const Floats& a : arrays) {
    require(a.shape(0) == arrays[0].shape(0), "the inputs must have the same rows");
    inputs.push_back({a.data(), (int64_t)a.shape(1)});
    width += (int64_t)a.shape(1);
  }
  require(width == s.channels(), "the inputs together must be as wide as q, k and v");
  return inputs;
}

void py_delta_mix(const DeltaRule& rule, const std::vector<Floats>& inputs, const Floats& gate, const Floats& beta,
                  const Floats& z, const std::vector<int64_t>& stops, const Before& before,
                  const std::vector<RecurrentHandle*>& after, const Floats& out) {
  const DeltaShape& s = rule.shape;
  auto in = inputs_of(s, inputs);
  auto rows = (int64_t)inputs[0].shape(0);
  auto fits = [&](const Floats& a, int64_t n) { return (int64_t)a.shape(0) == rows && (int64_t)a.shape(1) == n; };
  require(fits(gate, s.gates()) && fits(beta, s.heads), "gate or beta has the wrong shape");
  require(fits(z, s.values()) && fits(out, s.values()), "z and out must be [rows, heads * value_dim]");
  auto parts = parts_of(s, rows, stops, before, after);
  Released released;
  delta_mix({s, rule.conv.data(), rule.gain.data(), rule.bias.data(), rule.norm.data()},
            {in, gate.data(), beta.data(), z.data(), out.data()}, parts);
}

}  // namespace

void bind_delta(nb::module_& m) {
  nb::class_<RecurrentHandle>(m, "Recurrent");
  nb::class_<DeltaRule>(m, "DeltaRule");
  m.def("recurrent", &make_recurrent, nb::arg("window").noconvert(), nb::arg("matrix").noconvert());
  m.def("delta_rule", &make_delta_rule, nb::arg("conv").noconvert(), nb::arg("heads"), nb::arg("key_heads"),
        nb::arg("key_dim"), nb::arg("value_dim"), nb::arg("a_log").noconvert(), nb::arg("bias").noconvert(),
        nb::arg("lower").none(), nb::arg("norm").noconvert(), nb::arg("eps"), nb::arg("silu"));
  m.def("delta_mix", &py_delta_mix, nb::arg("rule"), nb::arg("inputs").noconvert(), nb::arg("gate").noconvert(),
        nb::arg("beta").noconvert(), nb::arg("z").noconvert(), nb::arg("stops"), nb::arg("before"), nb::arg("after"),
        nb::arg("out").noconvert());
}

}  // namespace coli
