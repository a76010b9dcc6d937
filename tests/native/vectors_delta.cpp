// The delta rule of a layer: convolution, gates, scan and gated norm, with one gate a head and with one a dimension.
#include "delta_run.h"
#include "vectors.h"

namespace vectors {
namespace {

using namespace coli;

struct State {
  Floats window, matrix;
  explicit State(const DeltaShape& s)
      : window((size_t)((s.taps - 1) * s.channels())), matrix((size_t)(s.heads * s.key_dim * s.value_dim)) {}
  Recurrent view() { return {window.data(), matrix.data()}; }
};

void layer(const std::string& name, const DeltaShape& s) {
  constexpr int64_t rows = 9;
  Random random(61);
  Floats conv = random.values(s.taps * s.channels()), bias = random.values(s.gates()), norm = random.values(s.value_dim);
  Floats a_log = random.values(s.gates(), 0.5f), gain(a_log.size());
  exp_of(a_log.data(), gain.data(), s.gates());
  Floats keys = random.values(rows * 2 * s.keys()), values = random.values(rows * s.values());
  Floats gate = random.values(rows * s.gates(), 20.f), beta = random.values(rows * s.heads, 3.f);
  Floats z = random.values(rows * s.values(), 3.f), out((size_t)(rows * s.values()));
  State first(s), second(s), third(s);
  DeltaInput inputs[] = {{keys.data(), 2 * s.keys()}, {values.data(), s.values()}};
  DeltaPart parts[] = {{0, 4, {}, first.view()}, {4, rows, {}, second.view()}};
  DeltaLayer l{s, conv.data(), gain.data(), bias.data(), norm.data()};
  DeltaCall call{inputs, gate.data(), beta.data(), z.data(), out.data()};
  Hash hash;
  delta_mix(l, call, parts);
  hash.add(out);
  parts[0] = {0, 1, first.view(), third.view()};
  parts[1] = {1, rows, second.view(), second.view()};
  delta_mix(l, call, parts);
  report(name, hash.add(out).add(second.window).add(second.matrix).add(third.window).add(third.matrix));
}

}  // namespace

void delta_vectors() {
  layer("delta a head", {4, 2, 16, 150, 4, false, false, true, 0.f, 1e-6f});
  layer("delta bounded", {3, 3, 24, 40, 3, true, true, false, -5.f, 1e-5f});
  layer("delta a dimension", {2, 1, 20, 64, 1, true, false, false, 0.f, 1e-6f});
}

}  // namespace vectors
