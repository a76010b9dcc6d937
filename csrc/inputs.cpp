// What products have in common whatever the weights' format: their input in planes, and the sum of experts' outputs.
#include "quantize.h"

namespace coli::COLI_PATH {
namespace {

void quantize(const float* x, int64_t cols, const Activations& out, int64_t t0, int64_t t1) {
  for (int64_t t = t0; t < t1; t++)
    for (int64_t g = 0; g < out.groups; g++) {
      f32x16 v[4];
      for (int i = 0; i < 4; i++) {
        int64_t at = g * 64 + 16 * i, left = cols - at;
        v[i] = left <= 0 ? zero() : load_n(x + t * cols + at, left < 16 ? (int)left : 16);
      }
      quantize_group(v, out, t, g);
    }
}

// One row: y += the sum over j ascending of weights[j] * pairs[order[j]], skipping -1.
void combine(const float* pairs, const int64_t* order, const float* weights, int64_t k, int64_t cols, float* y) {
  for (int64_t c = 0; c < cols; c += 16) {
    int n = (int)(cols - c < 16 ? cols - c : 16);
    f32x16 acc = load_n(y + c, n);
    for (int64_t j = 0; j < k; j++)
      if (order[j] >= 0) acc = fma(set1(weights[j]), load_n(pairs + order[j] * cols + c, n), acc);
    store_n(y + c, acc, n);
  }
}

}  // namespace

extern const InputKernels input_kernels;
const InputKernels input_kernels{quantize, combine};

}  // namespace coli::COLI_PATH
