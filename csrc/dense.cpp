// bf16, fp16 and fp32 weights.
#include "dense.h"

namespace coli::COLI_PATH {
namespace {

struct F32 {
  static constexpr int kBytes = 4;
  static f32x16 get(const uint8_t* p) { return load((const float*)(const void*)p); }
};
struct F16 {
  static constexpr int kBytes = 2;
  static f32x16 get(const uint8_t* p) { return load_f16(p); }
};
struct BF16 {
  static constexpr int kBytes = 2;
  static f32x16 get(const uint8_t* p) { return load_bf16(p); }
};

template <class W> f32x16 first(const uint8_t* p, int n) {
  alignas(64) uint8_t padded[64] = {};
  std::memcpy(padded, p, (size_t)(n * W::kBytes));
  return W::get(padded);
}

// out[t][r] = row r times token t
template <class W, int Rows, int Tokens>
void tile(const uint8_t* w, int64_t cols, const float* const* x, float out[kTileTokens][kTileRows]) {
  f32x16 acc[Rows][Tokens];
  for (int r = 0; r < Rows; r++)
    for (int t = 0; t < Tokens; t++) acc[r][t] = zero();
  int64_t k = 0;
  auto step = [&](auto weights, auto activations) {
    f32x16 v[Tokens];
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; t++) {
      v[t] = activations(x[t] + k);
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; r++) {
      f32x16 row = weights(w + (r * cols + k) * W::kBytes);
#pragma GCC unroll 4
      for (int t = 0; t < Tokens; t++) acc[r][t] = fma(row, v[t], acc[r][t]);
    }
  };
  for (; k + 16 <= cols; k += 16)
    step([](const uint8_t* p) { return W::get(p); }, [](const float* p) { return load(p); });
  if (int n = (int)(cols - k))
    step([=](const uint8_t* p) { return first<W>(p, n); }, [=](const float* p) { return load_first(p, n); });
  for (int r = 0; r < Rows; r++)
    for (int t = 0; t < Tokens; t++) out[t][r] = reduce_add(acc[r][t]);
}

template <class W> void tokens_of(const uint8_t* w, int64_t cols, int rows, const float* const* x, int tokens,
                                  float out[kTileTokens][kTileRows]) {
  if (rows == kTileRows && tokens == kTileTokens) return tile<W, kTileRows, kTileTokens>(w, cols, x, out);
  if (rows == kTileRows && tokens == 1) return tile<W, kTileRows, 1>(w, cols, x, out);
  for (int t = 0; t < tokens; t++)
    for (int r = 0; r < rows; r++) {
      float one[kTileTokens][kTileRows];
      tile<W, 1, 1>(w + r * cols * W::kBytes, cols, x + t, one);
      out[t][r] = one[0][0];
    }
}

template <class W> struct Floats {
  static constexpr int kTokens = kTileTokens;

  static void multiply(const Weights& w, int64_t row, int rows, const float* const* x, int tokens,
                       float (*out)[kTileRows]) {
    tokens_of<W>(w.data + row * w.cols * W::kBytes, w.cols, rows, x, tokens, out);
  }

  static int64_t row(const Weights& w, int64_t row, float* out) {
    constexpr int kBlock = 128;
    const uint8_t* p = w.data + row * w.cols * W::kBytes;
    int64_t bad = -1;
    for (int64_t c = 0; c < w.cols; c += kBlock) {
      alignas(64) float block[kBlock];
      int n = (int)(w.cols - c < kBlock ? w.cols - c : kBlock);
      for (int i = 0; i < n; i += 16) {
        const uint8_t* at = p + (c + i) * W::kBytes;
        store(block + i, n - i < 16 ? first<W>(at, n - i) : W::get(at));
      }
      if (bad < 0 && !finite(block, n))
        for (int i = n - 1; i >= 0; i--)
          if (!__builtin_isfinite(block[i])) bad = c + i;
      if (out) std::memcpy(out + c, block, sizeof(float) * (size_t)n);
    }
    return bad;
  }
};

}  // namespace

extern const FormatKernels f32_kernels, f16_kernels, bf16_kernels;
const FormatKernels f32_kernels = kDense<Floats<F32>>, f16_kernels = kDense<Floats<F16>>,
                    bf16_kernels = kDense<Floats<BF16>>;

}  // namespace coli::COLI_PATH
