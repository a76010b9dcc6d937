// The mixture of experts in two parallel regions: gate, up and SwiGLU by 64 inner rows; then down.
#include <algorithm>
#include <functional>

#include "matmul.h"
#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

void gate_up(const FormatKernels& kernels, const MoeArgs& a, int64_t experts) {
  int64_t groups = groups_of(a.inner);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) kernels.gate_up(a, i / groups, i % groups);
  };
  parallel_for(experts * groups, 1, std::cref(task));
}

// Accumulating, a task walks the experts in order over its own columns; a buffer a pair has no order to keep.
void down(const FormatKernels& kernels, const MoeArgs& a, int64_t experts) {
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

// The input in planes, and room for that of down.
void quantize(MoeArgs& a, int64_t tokens, int planes, Scratch<0>& in, Scratch<1>& mid) {
  const InputKernels& kernels = COLI_PICK(input_kernels);
  int64_t in_groups = groups_of(a.hidden), mid_groups = groups_of(a.inner);
  a.x_q = {in.data(), in_groups, activation_stride(in_groups), planes};
  a.inner_q = {mid.data(), mid_groups, activation_stride(mid_groups), planes};
  auto task = [&](int64_t begin, int64_t end) { kernels.quantize(a.x, a.hidden, a.x_q, begin, end); };
  parallel_for(tokens, std::max<int64_t>(1, 32768 / a.hidden), std::cref(task));
}

}  // namespace

void moe(MoeArgs a, int64_t tokens, int64_t experts, int64_t pairs, int planes) {
  const FormatKernels& kernels = kernels_of(a.format);
  bool planar = kernels.quantized;
  Scratch<0> in(planar ? tokens * planes * activation_stride(groups_of(a.hidden)) : 0);
  Scratch<1> mid(pairs * (planar ? planes * activation_stride(groups_of(a.inner)) : a.inner * (int64_t)sizeof(float)));
  if (planar) quantize(a, tokens, planes, in, mid);
  else a.inner_f32 = (float*)(void*)mid.data();
  gate_up(kernels, a, experts);
  down(kernels, a, experts);
}

void combine(const float* pairs, const int64_t* order, const float* weights, int64_t tokens, int64_t k, int64_t cols,
             float* y) {
  const InputKernels& kernels = COLI_PICK(input_kernels);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) kernels.combine(pairs, order + t * k, weights + t * k, k, cols, y + t * cols);
  };
  parallel_for(tokens, std::max<int64_t>(1, 16384 / std::max<int64_t>(cols * k, 1)), std::cref(task));
}

}  // namespace coli
