// Hyper-connections: rows more than are weighed at once, streams of an odd length.
#include "hyper_run.h"
#include "vectors.h"

namespace vectors {
namespace {

using namespace coli;

void half(const std::string& name, const HyperShape& s, int64_t rows) {
  Random random(71);
  int64_t width = s.streams * s.n;
  Floats fn = random.values(s.mixes() * width, 0.5f), base = random.values(s.mixes()), scale = random.values(3, 2.f);
  Floats x = random.values(rows * width, 3.f), y = random.values(rows * s.n);
  Floats h((size_t)(rows * s.n)), out((size_t)(rows * s.streams)), mean(h.size());
  HyperMix mix{s, Weights{(const uint8_t*)(const void*)fn.data(), Format::f32, s.mixes(), width}, base.data(), scale.data()};
  Hash hash;
  hyper_enter(mix, x.data(), rows, h.data(), out.data());
  hash.add(x).add(h).add(out);
  hyper_leave(s, out.data(), y.data(), rows, x.data());
  hyper_mean(s, x.data(), rows, mean.data());
  report(name, hash.add(x).add(mean));
}

}  // namespace

void hyper_vectors() {
  half("hyper 4", {4, 70, 20, 1e-5f, 1e-6f}, 19);
  half("hyper 3", {3, 1040, 1, 1e-6f, 1e-3f}, 2);
}

}  // namespace vectors
