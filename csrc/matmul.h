// Products, packing and the mixture of experts on the active CPU path, shared out among the pool's threads.
// Arguments have been checked by the caller; the GIL is not needed.
#pragma once
#include "matmul_kernels.h"

namespace coli {

// Blocks of w [rows, cols] into out (null: the range only). bad is the first element that is not finite.
ScaleRange pack(const uint8_t* w, Dtype dtype, int64_t rows, int64_t cols, Scheme scheme, float multiplier,
                uint8_t* out);

// x [tokens, heads, cols] times rows [i rows/heads, (i + 1) rows/heads) for head i -> y [tokens, rows].
void matmul(const PackedWeights& w, const float* x, int64_t tokens, int64_t heads, int planes, float* y);
void matmul(const DenseWeights& w, const float* x, int64_t tokens, int64_t heads, float* y);

// y [count, cols] = the rows named by ids.
void embed(const PackedWeights& w, const int64_t* ids, int64_t count, float* y);
void embed(const DenseWeights& w, const int64_t* ids, int64_t count, float* y);

// The scratch in `args` is filled in here.
void moe_packed(MoeArgs args, const float* x, int64_t tokens, int64_t experts, int64_t pairs, int planes);
void moe_dense(MoeArgs args, int64_t experts, int64_t pairs);
void combine(const float* pairs, const int64_t* order, const float* weights, int64_t tokens, int64_t k, int64_t cols,
             float* y);

}  // namespace coli
