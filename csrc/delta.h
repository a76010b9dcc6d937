// The delta rule (gated DeltaNet and KDA): what one CPU path provides. Plain types only, as in ops.h.
//
// A state S [key_dim, value_dim] a head remembers a sequence. A token decays it, then writes what its value has more
// than the key finds: S <- exp(g) S; S += k (x) beta (v - k S); o = q S. Sums run over the key's dimensions in order,
// a value column a lane, so an output's bits depend on its column and the tokens before it, and on nothing else.
#pragma once
#include <cstdint>

#include "cpu.h"

namespace coli {

struct DeltaShape {
  int64_t heads, key_heads, key_dim, value_dim, taps;
  bool per_channel;  // a gate for every key dimension of a head (KDA), or one a head
  bool bounded;      // g = lower * sigmoid(gain (x + bias)); else -gain * softplus(x + bias)
  bool silu;         // the output's gate: silu or sigmoid
  float lower, eps;

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return heads * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }  // of the convolution: q, k, v
  int64_t gates() const { return per_channel ? heads * key_dim : heads; }
};

struct ShortConv {         // causal, depthwise, of one sequence's row
  const float* tap[8];     // the inputs under each tap, oldest first
  const float* weight;     // [taps, stride]
  int64_t taps, stride;
};

struct DeltaRows {
  DeltaShape shape;
  float* qkv;         // [rows, channels], after the convolution
  const float* gate;  // [rows, gates]
  const float* beta;  // [rows, heads]
  const float* gain;  // [gates]: exp(A_log)
  const float* bias;  // [gates]
  float* decay;       // [rows, gates]
  float* write;       // [rows, heads]
};

struct DeltaScan {  // one sequence
  DeltaShape shape;
  const float *qkv, *decay, *write;  // of its first row
  const float* before;               // [heads, blocks, key_dim, kDeltaColumns]; the last block as wide as is left
  float* after;                      // the same; may be `before`
  float* out;                        // [rows, values]
  int64_t rows;
};

struct DeltaKernels {
  void (*exp)(const float* x, float* y, int64_t n);
  void (*conv_silu)(const ShortConv& a, float* y, int64_t n);  // columns
  // q and k to length 1, q scaled; exp(g) and sigmoid(beta).
  void (*prepare)(const DeltaRows& a, int64_t begin, int64_t end);  // rows
  void (*scan)(const DeltaScan& a, int64_t head, int64_t column, int64_t width);  // one block
  // y = norm(y) * weight * silu(z) or sigmoid(z), over each head.
  void (*norm_gate)(const DeltaShape& a, const float* weight, const float* z, float* y, int64_t begin, int64_t end);
};
constexpr int64_t kMaxTaps = 8;
// A state's columns lie in blocks of so many: a block of 128 keys fits the first-level cache while tokens pass.
constexpr int64_t kDeltaColumns = 32;

#define COLI_TABLES(path, x)               \
  namespace path {                         \
  extern const DeltaKernels delta_kernels; \
  }
COLI_EACH_PATH(COLI_TABLES, )
#undef COLI_TABLES

}  // namespace coli
