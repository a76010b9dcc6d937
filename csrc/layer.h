// The halves of a layer in few calls: the residual add and norm, then products, attention or a router. The steps are
// those of ops_run.h and matmul.h, so are the bits. Arguments have been checked by the caller; no GIL is needed.
#pragma once
#include <optional>
#include <span>

#include "matmul.h"
#include "ops_run.h"

namespace coli {

struct Norm {
  const float* weight;  // [n]
  int64_t n;
  float eps;
};
// On its way into a half: x += y where `add`, then y = the norm of x. y may be x where nothing is added.
struct Stream {
  float *x, *y;  // [rows, n]
  int64_t rows;
  bool add;
  Norm norm;
};
void normalize(const Stream& s);

struct Affine {
  Weights weights;
  const float* bias;  // [rows of the weights], or null
};
struct Output {
  const Affine& of;
  float* y;  // [rows, rows of the weights]
};
// Each y = weights x + bias; the weights agree on the inputs.
void project(std::span<const Output> outputs, const float* x, int64_t rows, int planes);

// out = down(silu(gate x) * up x), the middle kept to itself; gate x at most the limit, up x within +-limit.
void swiglu(const Affine& gate, const Affine& up, const Affine& down, float limit, const float* x, int64_t rows,
            int planes, float* out);

// What happens to queries, keys and values between the projections.
struct Heads {
  int64_t heads, kv_heads, dim;
  std::optional<Norm> q_norm, k_norm;  // over a whole row before the clipping, or over each head after it
  bool per_head;
  float clip;  // infinite: none
  int64_t window;
  float scale;
  bool interleaved;
  bool gated;  // q comes as query and gate, head by head, and what a head attends to is multiplied by sigmoid(gate)
};
// Rows of several sequences side by side, each at consecutive positions.
struct Positions {
  const int64_t* positions;  // [rows]
  const float *cos, *sin;    // [rows, half]
  int64_t half;
};
struct KeyValues {
  float *keys, *values;  // [capacity, kv_heads, dim]
  int64_t capacity;
};
struct CachedRows {
  KeyValues cache;
  int64_t row0, row1;
};
// Norms, clips and rotates q [rows, heads, dim], k and v [rows, kv_heads, dim] in place, appends k and v to the
// caches at their positions; then q becomes what each query attends to.
void attend_rows(const Heads& h, float* q, float* k, float* v, const Positions& p, std::span<const CachedRows> parts);

// Of `both` [heads, query | gate], a head of `dim` each: q [heads, dim] becomes the queries; later q *= sigmoid(gate).
void take_queries(const float* both, float* q, int64_t heads, int64_t dim);
void gate_heads(float* both, float* q, int64_t heads, int64_t dim);

}  // namespace coli
