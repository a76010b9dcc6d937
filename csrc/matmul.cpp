#include "matmul.h"

#include <algorithm>
#include <functional>
#include <mutex>

#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

constexpr int64_t kPartBytes = 512 << 10;  // a part's activations stay in the L2 cache

// The parts of a product: heads x row chunks x token chunks, weights varying slowest.
template <class Run>
void for_each_part(int64_t rows, int64_t heads, int64_t tokens, int64_t token_bytes, const Run& run) {
  int64_t per_head = rows / heads, blocks = ceil_div(per_head, kRows);
  int64_t some = std::clamp<int64_t>(heads * blocks / (4 * num_threads()), 1, 16) * kRows;
  int64_t few = std::max<int64_t>(kPartBytes / token_bytes / 8, 1) * 8;
  int64_t row_chunks = ceil_div(per_head, some), token_chunks = ceil_div(tokens, few);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t t = i % token_chunks * few, chunk = i / token_chunks;
      int64_t head = chunk / row_chunks, row = chunk % row_chunks * some;
      run(Part{head * per_head + row, head * per_head + std::min(row + some, per_head), t,
               std::min(t + few, tokens), heads, head});
    }
  };
  parallel_for(heads * row_chunks * token_chunks, 1, std::cref(task));
}

}  // namespace

ScaleRange pack(const uint8_t* w, Dtype dtype, int64_t rows, int64_t cols, Scheme scheme, float multiplier,
                uint8_t* out) {
  const PackKernels& kernels = COLI_PICK(pack_kernels);
  ScaleRange total{__builtin_inff(), 0.f, -1};
  std::mutex mutex;
  int64_t row_bytes = cols * element_bytes(dtype), size = block_bytes(scheme, cols);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      int64_t row = b * kRows;
      ScaleRange r = kernels.pack_block(w + row * row_bytes, dtype, std::min<int64_t>(kRows, rows - row), cols, scheme,
                                        multiplier, out ? out + b * size : nullptr);
      std::lock_guard<std::mutex> lock(mutex);
      total.smallest = std::min(total.smallest, r.smallest);
      total.largest = std::max(total.largest, r.largest);
      int64_t bad = r.bad < 0 ? -1 : row * cols + r.bad;
      if (bad >= 0 && (total.bad < 0 || bad < total.bad)) total.bad = bad;
    }
  };
  parallel_for(ceil_div(rows, kRows), 1, std::cref(task));
  return total;
}

void matmul(const PackedWeights& w, const float* x, int64_t tokens, int64_t heads, int planes, float* y) {
  const PackedKernels& kernels = COLI_PICK(packed_kernels);
  int64_t groups = groups_of(w.cols), stride = activation_stride(groups), inputs = tokens * heads;
  Scratch<0> scratch(inputs * planes * stride);
  Activations q{scratch.data(), groups, stride, planes};
  auto quantize = [&](int64_t begin, int64_t end) { kernels.quantize(x, w.cols, q, begin, end); };
  parallel_for(inputs, std::max<int64_t>(1, 32768 / w.cols), std::cref(quantize));
  for_each_part(w.rows, heads, tokens, planes * stride, [&](const Part& part) { kernels.matmul(w, q, part, y); });
}

void matmul(const DenseWeights& w, const float* x, int64_t tokens, int64_t heads, float* y) {
  const DenseKernels& kernels = COLI_PICK(dense_kernels);
  for_each_part(w.rows, heads, tokens, w.cols * 4, [&](const Part& part) { kernels.matmul(w, x, part, y); });
}

void embed(const PackedWeights& w, const int64_t* ids, int64_t count, float* y) {
  const PackKernels& kernels = COLI_PICK(pack_kernels);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) kernels.unpack_row(w, ids[t], y + t * w.cols);
  };
  parallel_for(count, 16, std::cref(task));
}

void embed(const DenseWeights& w, const int64_t* ids, int64_t count, float* y) {
  const PackKernels& kernels = COLI_PICK(pack_kernels);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) kernels.dense_row(w, ids[t], y + t * w.cols);
  };
  parallel_for(count, 16, std::cref(task));
}

}  // namespace coli
