// Products, packing and the mixture of experts on the active CPU path, shared out among the pool's threads.
// Arguments have been checked by the caller; the GIL is not needed.
#pragma once
#include <span>
#include <variant>

#include "matmul_kernels.h"

namespace coli {

// Blocks of w [rows, cols] into out (null: the range only). bad is the first element that is not finite.
ScaleRange pack(const uint8_t* w, Dtype dtype, int64_t rows, int64_t cols, Scheme scheme, float multiplier,
                uint8_t* out);

// Blocks of int4 or int8 [rows, cols] into out as int3: the bytes of 16 rows and any 64 inputs depend on nothing else.
// The multiplier of the result is that of the weights times narrow_factor.
void narrow(const uint8_t* blocks, int64_t rows, int64_t cols, Scheme scheme, uint8_t* out);
inline float narrow_factor(Scheme scheme) { return scheme == Scheme::int4 ? 0.5f : 8.f; }

using Weights = std::variant<PackedWeights, DenseWeights>;
inline bool is_packed(const Weights& w) { return w.index() == 0; }
inline int64_t rows_of(const Weights& w) {
  return std::visit([](const auto& a) { return a.rows; }, w);
}
inline int64_t cols_of(const Weights& w) {
  return std::visit([](const auto& a) { return a.cols; }, w);
}

struct Product {
  Weights weights;
  float* y;  // [tokens, rows]
};
// x [tokens, heads, cols] times rows [i rows/heads, (i + 1) rows/heads) for head i of each of the weights, which
// agree on cols. x is quantised once, and the parts of all products are shared out together.
void matmul(std::span<const Product> products, const float* x, int64_t tokens, int64_t heads, int planes);

// e4m3 as fp32 [rows, cols]; out null: only checked. The first element that is not finite, or -1.
int64_t decode_fp8(const DenseWeights& w, float* out);

// y [count, cols] = the rows named by ids.
void embed(const Weights& w, const int64_t* ids, int64_t count, float* y);

// The scratch in `args` is filled in here.
void moe_packed(MoeArgs args, const float* x, int64_t tokens, int64_t experts, int64_t pairs, int planes);
void moe_dense(MoeArgs args, int64_t experts, int64_t pairs);
void combine(const float* pairs, const int64_t* order, const float* weights, int64_t tokens, int64_t k, int64_t cols,
             float* y);

}  // namespace coli
