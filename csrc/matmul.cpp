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
      : heads_(heads), tokens_(tokens), per_head_(rows_of(p.weights) / heads) {
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
    return is_packed(w) ? planes * activation_stride(groups_of(cols_of(w))) : cols_of(w) * 4;
  }
  int64_t heads_, tokens_, per_head_, some_, few_, row_chunks_, token_chunks_;
};

// Room for x [inputs, cols] in planes, filled in if any of the products needs it.
Activations quantized(std::span<const Product> products, const float* x, int64_t inputs, int planes,
                      Scratch<0>& scratch) {
  int64_t cols = cols_of(products[0].weights), groups = groups_of(cols);
  Activations q{scratch.data(), groups, activation_stride(groups), planes};
  if (std::none_of(products.begin(), products.end(), [](const Product& p) { return is_packed(p.weights); })) return q;
  const PackedKernels& kernels = COLI_PICK(packed_kernels);
  auto task = [&](int64_t begin, int64_t end) { kernels.quantize(x, cols, q, begin, end); };
  parallel_for(inputs, std::max<int64_t>(1, 32768 / cols), std::cref(task));
  return q;
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

void narrow(const uint8_t* blocks, int64_t rows, int64_t cols, Scheme scheme, uint8_t* out) {
  const NarrowKernels& kernels = COLI_PICK(narrow_kernels);
  int64_t from = block_bytes(scheme, cols), to = block_bytes(Scheme::int3, cols);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) kernels.narrow_block(blocks + b * from, scheme, cols, out + b * to);
  };
  parallel_for(ceil_div(rows, kRows), std::max<int64_t>(1, 65536 / from), std::cref(task));
}

void matmul(std::span<const Product> products, const float* x, int64_t tokens, int64_t heads, int planes) {
  const PackedKernels& packed = COLI_PICK(packed_kernels);
  const DenseKernels& dense = COLI_PICK(dense_kernels);
  int64_t blocks = 0, parts = 0, bytes = 0;
  for (const Product& p : products) {
    blocks += heads * ceil_div(rows_of(p.weights) / heads, kRows);
    if (is_packed(p.weights)) bytes = tokens * heads * planes * activation_stride(groups_of(cols_of(p.weights)));
  }
  std::vector<Split> splits;
  splits.reserve(products.size());
  for (const Product& p : products) parts += splits.emplace_back(p, heads, tokens, planes, blocks).parts();
  Scratch<0> scratch(bytes);
  Activations q = quantized(products, x, tokens * heads, planes, scratch);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; n++) {
      size_t at = 0;
      int64_t i = n;
      while (i >= splits[at].parts()) i -= splits[at++].parts();
      const Product& p = products[at];
      if (auto* w = std::get_if<PackedWeights>(&p.weights)) packed.matmul(*w, q, splits[at].part(i), p.y);
      else dense.matmul(std::get<DenseWeights>(p.weights), x, splits[at].part(i), p.y);
    }
  };
  parallel_for(parts, 1, std::cref(task));
}

int64_t decode_fp8(const DenseWeights& w, float* out) {
  const Fp8Kernels& kernels = COLI_PICK(fp8_kernels);
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

void embed(const Weights& weights, const int64_t* ids, int64_t count, float* y) {
  const PackKernels& kernels = COLI_PICK(pack_kernels);
  const Fp8Kernels& fp8 = COLI_PICK(fp8_kernels);
  auto* packed = std::get_if<PackedWeights>(&weights);
  auto* dense = std::get_if<DenseWeights>(&weights);
  int64_t cols = cols_of(weights);
  auto task = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      if (packed) kernels.unpack_row(*packed, ids[t], y + t * cols);
      else if (is_e4m3(dense->dtype)) fp8.row(*dense, ids[t], y + t * cols);
      else kernels.dense_row(*dense, ids[t], y + t * cols);
    }
  };
  parallel_for(count, 16, std::cref(task));
}

}  // namespace coli
