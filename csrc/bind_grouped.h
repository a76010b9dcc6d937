// Grouped-query attention of a layer with all around it, over the caches of all sequences of a step.
#pragma once
#include "bind_layer.h"

namespace coli {

struct KeyValuesHandle {  // the buffers of a cache, and how much of them is used
  Out<float, 3> keys, values;
  int64_t length = 0, touched = 0;
};

using Caches = std::vector<std::vector<std::optional<KeyValuesHandle*>>>;

struct StepRows {
  In<int64_t, 1> positions;
  In<float, 2> cos, sin;
  std::vector<int64_t> stops;
  Caches caches;  // by sequence and layer; none: of another kind
  int64_t rows() const { return (int64_t)positions.shape(0); }
};

struct GroupedAttention {
  int64_t layer;
  Projections qkv, o_proj;
  std::optional<NormHandle> q_norm, k_norm;  // keep the weights alive
  Heads heads;
  int64_t q_width() const { return heads.heads * heads.dim; }
  int64_t q_rows() const { return heads.gated ? 2 * q_width() : q_width(); }
  int64_t kv_width() const { return heads.kv_heads * heads.dim; }
};

// x += y, its norm, the projections, the heads; the output projection into y. The caches count the rows. Without the GIL,
// by whoever has checked that all fits.
void attend_layer(const Stream& s, const GroupedAttention& a, const StepRows& step, std::span<const CachedRows> parts);
// What attend_layer takes of the caches; checks that the layer fits the stream and the step.
std::vector<CachedRows> attended(const Stream& s, const GroupedAttention& a, const StepRows& step);

}  // namespace coli
