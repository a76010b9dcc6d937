// Tiles of products with e4m3 weights, for dense.cpp.
#pragma once
#include "matmul_kernels.h"
#include "simd/simd.h"

namespace coli::COLI_PATH {

// Outputs held in registers at once: weight rows x tokens.
constexpr int kTileRows = kRegisters >= 32 ? 4 : kRegisters >= 8 ? 2 : 1, kTileTokens = kTileRows;
// Tokens that take turns with weights once decoded.
constexpr int kFp8Tokens = 16;

// out[t][r] = row `row + r` times x[t]; rows <= kTileRows, tokens <= kFp8Tokens.
void fp8_tile(const DenseWeights& w, int64_t row, int rows, const float* const* x, int tokens,
              float (*out)[kTileRows]);

}  // namespace coli::COLI_PATH
