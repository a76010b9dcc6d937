// Hyper-connections over the pool of threads, rows side by side.
#pragma once
#include "hyper.h"
#include "matmul.h"

namespace coli {

struct HyperMix {
  HyperShape shape;
  Weights fn;          // [mixes, streams * n]
  const float* base;   // [mixes]
  const float* scale;  // [3]
};

// The streams x [rows, streams, n] on their way into a half: h [rows, n] becomes what it reads, out [rows, streams]
// the weights by which its output is to be added, and x is mixed.
void hyper_enter(const HyperMix& m, float* x, int64_t rows, float* h, float* out);
// x[r, j] += out[r, j] y[r].
void hyper_leave(const HyperShape& s, const float* out, const float* y, int64_t rows, float* x);
// y [rows, n] = the mean of the streams.
void hyper_mean(const HyperShape& s, const float* x, int64_t rows, float* y);

}  // namespace coli
