// Hyper-connections (mHC): what one CPU path provides. Plain types only, as in ops.h.
//
// The residual of a row is `streams` streams [streams, n], one behind the other. A half of a layer reads a weighted sum
// of them; in the meantime they are mixed with one another; what the half makes is added to each by its own weight. The
// weights follow from the streams: products of them normed, sigmoids, and a matrix brought by turns to rows and columns
// that sum to 1 (Sinkhorn).
#pragma once
#include <cstdint>

#include "cpu.h"

namespace coli {

constexpr int64_t kMaxStreams = 8;

struct HyperShape {
  int64_t streams, n;
  int64_t iterations;  // of Sinkhorn
  float norm_eps, eps;

  // Into the half, out of it, and from each stream to each.
  int64_t mixes() const { return (2 + streams) * streams; }
};

struct HyperWeights {  // of a block of rows
  HyperShape shape;
  const float* x;         // [rows, streams, n]
  const float* products;  // [rows, mixes], of x as it is
  const float* base;      // [mixes]
  const float* scale;     // [3]: of the three kinds of mixes
  float* in;              // [rows, streams]
  float* out;             // [rows, streams]
  float* between;         // [rows, streams, streams]: from, to
};
// Rows whose weights are found at once, one a lane.
constexpr int64_t kHyperRows = 16;

struct HyperKernels {
  void (*weights)(const HyperWeights& a, int64_t begin, int64_t end);  // at most kHyperRows rows
  // h = the sum over i of in[i] x[i]; then x[j] = the sum over i of between[i, j] x[i]. One row, columns.
  void (*enter)(const HyperShape& s, const float* in, const float* between, float* x, float* h, int64_t begin,
                int64_t end);
  // x[j] += out[j] y. One row, columns.
  void (*leave)(const HyperShape& s, const float* out, const float* y, float* x, int64_t begin, int64_t end);
  // y = the mean of the streams. One row, columns.
  void (*mean)(const HyperShape& s, const float* x, float* y, int64_t begin, int64_t end);
};

#define COLI_TABLES(path, x)               \
  namespace path {                         \
  extern const HyperKernels hyper_kernels; \
  }
COLI_EACH_PATH(COLI_TABLES, )
#undef COLI_TABLES

}  // namespace coli
