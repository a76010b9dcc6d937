#include "matmul.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <vector>

#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

constexpr int64_t kPartBytes = 512 << 10;  // a part's activations stay in the L2 cache

// The parts of a product: heads x row chunks x token chunks, weights varying slowest.
class Split {
 public:
  // blocks: of 16 rows, over all products that are shared out together.
  Split(const Product& p, int64_t heads, int64_t tokens, int planes, int64_t blocks)
      : heads_(heads), tokens_(tokens), per_head_(p.weights.rows / heads) {
    some_ = std::clamp<int64_t>(blocks / (4 * num_threads()), 1, 16) * kRows;
    few_ = std::max<int64_t>(kPartBytes / token_bytes(p.weights, planes) / 8, 1) * 8;
    row_chunks_ = ceil_div(per_head_, some_);
    token_chunks_ = ceil_div(tokens, few_);
  }
  int64_t parts() const { return heads_ * row_chunks_ * token_chunks_; }
  Part part(int64_t i) const {
    int64_t t = i % token_chunks_ * few_, chunk = i / token_chunks_;
    int64_t head = chunk / row_chunks_, row = chunk % row_chunks_ * some_;
    return {head * per_head_ + row, head * per_head_ + std::min(row + some_, per_head_), t,
            std::min(t + few_, tokens_), heads_, head};
  }

 private:
  static int64_t token_bytes(const Weights& w, int planes) {
    return kernels_of(w.format).quantized ? planes * activation_stride(groups_of(w.cols)) : w.cols * 4;
  }
  int64_t heads_, tokens_, per_head_, some_, few_, row_chunks_, token_chunks_;
};

void quantize(const float* x, int64_t rows, int64_t cols, const Activations& out) {
  const InputKernels& kernels = COLI_PICK(input_kernels);
  auto task = [&](int64_t begin, int64_t end) { kernels.quantize(x, cols, out, begin, end); };
  parallel_for(rows, std::max<int64_t>(1, 32768 / cols), std::cref(task));
}

}  // namespace

const FormatKernels& kernels_of(Format f) { return *COLI_PICK(format_kernels)[(int)f]; }

ScaleRange pack(const Weights& w, Format format, float multiplier, uint8_t* out) {
  const PackKernels& kernels = COLI_PICK(pack_kernels);
  ScaleRange total{__builtin_inff(), 0.f, -1};
  std::mutex mutex;
  int64_t size = block_bytes(format, w.cols);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      int64_t row = b * kRows;
      ScaleRange r = kernels.pack_block(w, row, std::min<int64_t>(kRows, w.rows - row), format, multiplier,
                                        out ? out + b * size : nullptr);
      std::lock_guard<std::mutex> lock(mutex);
      total.smallest = std::min(total.smallest, r.smallest);
      total.largest = std::max(total.largest, r.largest);
      int64_t bad = r.bad < 0 ? -1 : row * w.cols + r.bad;
      if (bad >= 0 && (total.bad < 0 || bad < total.bad)) total.bad = bad;
    }
  };
  parallel_for(ceil_div(w.rows, kRows), 1, std::cref(task));
  return total;
}

void narrow(const Weights& w, uint8_t* out) {
  const NarrowKernels& kernels = COLI_PICK(narrow_kernels);
  int64_t from = block_bytes(w.format, w.cols), to = block_bytes(Format::int3, w.cols);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) kernels.narrow_block(w.data + b * from, w.format, w.cols, out + b * to);
  };
  parallel_for(ceil_div(w.rows, kRows), std::max<int64_t>(1, 65536 / from), std::cref(task));
}

void matmul(std::span<const Product> products, const float* x, int64_t tokens, int64_t heads, int planes) {
  int64_t blocks = 0, parts = 0, cols = products[0].weights.cols, groups = groups_of(cols);
  bool quantized = false;
  for (const Product& p : products) {
    blocks += heads * ceil_div(p.weights.rows / heads, kRows);
    quantized = quantized || kernels_of(p.weights.format).quantized;
  }
  std::vector<Split> splits;
  splits.reserve(products.size());
  for (const Product& p : products) parts += splits.emplace_back(p, heads, tokens, planes, blocks).parts();
  int64_t stride = activation_stride(groups);
  Scratch<0> scratch(quantized ? tokens * heads * planes * stride : 0);
  Inputs inputs{x, {scratch.data(), groups, stride, planes}};
  if (quantized) quantize(x, tokens * heads, cols, inputs.q);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; n++) {
      size_t at = 0;
      int64_t i = n;
      while (i >= splits[at].parts()) i -= splits[at++].parts();
      const Product& p = products[at];
      kernels_of(p.weights.format).matmul(p.weights, inputs, splits[at].part(i), p.y);
    }
  };
  parallel_for(parts, 1, std::cref(task));
}

int64_t decode(const Weights& w, float* out) {
  const FormatKernels& kernels = kernels_of(w.format);
  int64_t bad = -1;
  std::mutex mutex;
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) {
      int64_t col = kernels.row(w, row, out ? out + row * w.cols : nullptr);
      if (col < 0) continue;
      std::lock_guard<std::mutex> lock(mutex);
      int64_t at = row * w.cols + col;
      if (bad < 0 || at < bad) bad = at;
    }
  };
  parallel_for(w.rows, std::max<int64_t>(1, 32768 / w.cols), std::cref(task));
  return bad;
}

void embed(const Weights& w, const int64_t* ids, int64_t count, float* y) {
  const FormatKernels& kernels = kernels_of(w.format);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) kernels.row(w, ids[t], y + t * w.cols);
  };
  parallel_for(count, 16, std::cref(task));
}

}  // namespace coli
