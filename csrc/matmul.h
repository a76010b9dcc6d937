// Products, packing and the mixture of experts on the active CPU path, shared out among the pool's threads.
// Arguments have been checked by the caller; the GIL is not needed.
#pragma once
#include <span>

#include "matmul_kernels.h"

namespace coli {

// On the active path.
const FormatKernels& kernels_of(Format f);

// Blocks of w, of floats, into out (null: the range only) as int4 or int8. bad is the first element that is not finite.
ScaleRange pack(const Weights& w, Format format, float multiplier, uint8_t* out);

// Blocks of int4 or int8 into out as int3: the bytes of 16 rows and any 64 inputs depend on nothing else. The
// multiplier of the result is that of the weights times narrow_factor.
void narrow(const Weights& w, uint8_t* out);
inline float narrow_factor(Format f) { return f == Format::int4 ? 0.5f : 8.f; }

struct Product {
  Weights weights;
  float* y;  // [tokens, rows]
};
// x [tokens, heads, cols] times rows [i rows/heads, (i + 1) rows/heads) for head i of each of the weights, which
// agree on cols. x is quantised once, and the parts of all products are shared out together.
void matmul(std::span<const Product> products, const float* x, int64_t tokens, int64_t heads, int planes);

// As fp32 [rows, cols]; out null: only checked. The first element that is not finite, or -1.
int64_t decode(const Weights& w, float* out);

// y [count, cols] = the rows named by ids.
void embed(const Weights& w, const int64_t* ids, int64_t count, float* y);

// The scratch in `args` is filled in here. planes: of quantised input.
void moe(MoeArgs args, int64_t tokens, int64_t experts, int64_t pairs, int planes);
void combine(const float* pairs, const int64_t* order, const float* weights, int64_t tokens, int64_t k, int64_t cols,
             float* y);

}  // namespace coli
