// The mixture of experts in two parallel regions: gate, up and SwiGLU by 64 inner rows; then down.
#include <algorithm>
#include <functional>

#include "matmul.h"
#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

template <class Kernels> void gate_up(const Kernels& kernels, const MoeArgs& a, int64_t experts) {
  int64_t groups = groups_of(a.inner);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) kernels.gate_up(a, i / groups, i % groups);
  };
  parallel_for(experts * groups, 1, std::cref(task));
}

// Accumulating, a task walks the experts in order over its own columns; a buffer a pair has no order to keep.
template <class Kernels> void down(const Kernels& kernels, const MoeArgs& a, int64_t experts) {
  int64_t blocks = ceil_div(a.hidden, kRows);
  int64_t some = std::clamp<int64_t>(blocks / (4 * num_threads()), 1, 8);
  int64_t chunks = ceil_div(blocks, some);
  auto columns = [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; c++)
      for (int64_t e = 0; e < experts; e++) kernels.down(a, e, c * some, std::min((c + 1) * some, blocks));
  };
  auto alone = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
      kernels.down(a, i / chunks, i % chunks * some, std::min((i % chunks + 1) * some, blocks));
  };
  if (a.pair_out) parallel_for(experts * chunks, 1, std::cref(alone));
  else parallel_for(chunks, 1, std::cref(columns));
}

}  // namespace

void moe_packed(MoeArgs a, const float* x, int64_t tokens, int64_t experts, int64_t pairs, int planes) {
  const PackedKernels& kernels = COLI_PICK(packed_kernels);
  int64_t in_groups = groups_of(a.hidden), mid_groups = groups_of(a.inner);
  int64_t in_stride = activation_stride(in_groups), mid_stride = activation_stride(mid_groups);
  Scratch<0> in(tokens * planes * in_stride);
  Scratch<1> mid(pairs * planes * mid_stride);
  a.x_q = {in.data(), in_groups, in_stride, planes};
  a.inner_q = {mid.data(), mid_groups, mid_stride, planes};
  auto quantize = [&](int64_t begin, int64_t end) { kernels.quantize(x, a.hidden, a.x_q, begin, end); };
  parallel_for(tokens, std::max<int64_t>(1, 32768 / a.hidden), std::cref(quantize));
  gate_up(kernels, a, experts);
  down(kernels, a, experts);
}

void moe_dense(MoeArgs a, int64_t experts, int64_t pairs) {
  const DenseKernels& kernels = COLI_PICK(dense_kernels);
  Scratch<1> mid(pairs * a.inner * (int64_t)sizeof(float));
  a.inner_f32 = (float*)(void*)mid.data();
  gate_up(kernels, a, experts);
  down(kernels, a, experts);
}

void combine(const float* pairs, const int64_t* order, const float* weights, int64_t tokens, int64_t k, int64_t cols,
             float* y) {
  const DenseKernels& kernels = COLI_PICK(dense_kernels);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) kernels.combine(pairs, order + t * k, weights + t * k, k, cols, y + t * cols);
  };
  parallel_for(tokens, std::max<int64_t>(1, 16384 / std::max<int64_t>(cols * k, 1)), std::cref(task));
}

}  // namespace coli
