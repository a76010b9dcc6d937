// The delta rule of a layer over the pool of threads, for rows of several sequences side by side.
#pragma once
#include <span>

#include "delta.h"

namespace coli {

struct DeltaInput {  // some of the convolution's channels: q, k and v may come in one array or in three
  const float* x;    // [rows, width]
  int64_t width;
};
struct Recurrent {
  float* window;  // [taps - 1, channels]: the last inputs of the convolution
  float* matrix;  // [heads, key_dim * value_dim], in blocks of columns (DeltaScan)
};
struct DeltaPart {  // the rows of one sequence; its state before them (null: none yet) and after, which may be one
  int64_t row0, row1;
  Recurrent before, after;
};
struct DeltaLayer {
  DeltaShape shape;
  const float* conv;                // [taps, channels]
  const float *gain, *bias, *norm;  // [gates], [gates], [value_dim]
};
struct DeltaCall {
  std::span<const DeltaInput> inputs;
  const float *gate, *beta, *z;  // [rows, gates], [rows, heads], [rows, values]
  float* out;                    // [rows, values]
};

void delta_mix(const DeltaLayer& layer, const DeltaCall& call, std::span<DeltaPart> parts);
void exp_of(const float* x, float* y, int64_t n);

}  // namespace coli
