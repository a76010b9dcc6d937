// What the files compiled once per CPU path offer to the rest: one table of functions a file. The functions work on
// a part of the output; the callers (matmul.cpp, moe.cpp) share the parts out among threads.
#pragma once
#include <cstdint>

#include "cpu.h"
#include "layout.h"

namespace coli {

// Quantised activations, one row a token and plane: int8 [groups * 64], then {float scale, int32 sum} [groups].
// The stride is an odd multiple of 64 bytes, so that the rows of a tile do not share a set of the L1 cache.
struct Activations {
  uint8_t* data;
  int64_t groups, stride;
  int planes;
  // Inlined for certain: a copy outside the path's namespace would be shared by all paths.
  __attribute__((always_inline)) uint8_t* row(int64_t token, int plane) const {
    return data + (token * planes + plane) * stride;
  }
};
static inline int64_t activation_stride(int64_t groups) { return (ceil_div(groups * 72, 64) | 1) * 64; }

struct Scales {  // of row-major formats that have them
  const uint8_t* data = nullptr;  // any alignment
  int64_t first = 0;  // where row 0 of the weights is in its block
};

struct Weights {
  const uint8_t* data;  // any alignment
  Format format;
  int64_t rows, cols;
  Scales scales = {};
  float multiplier = 1.f;  // of the scales of packed formats
};

// The input of a product: as the format's kernels take it.
struct Inputs {
  const float* x;  // [tokens, cols]
  Activations q;   // where `quantized`
};

// Output row t, columns [row0, row1) of the weights; token t * token_step + token_first is its input.
struct Part {
  int64_t row0, row1, t0, t1;
  int64_t token_step, token_first;
};

struct MoeArgs {
  Format format;
  int64_t hidden, inner;
  float limit;               // of SwiGLU's inputs; infinite: none
  const uint64_t* parts;     // [experts, 3] addresses of gate, up, down
  const uint64_t* scales;    // [experts, 3] addresses, of formats that have them
  int64_t up_first;          // where up's row 0 is in its block of scales
  const float* multipliers;  // [experts, 3]; of packed formats
  const int64_t* pair_start;
  const int64_t* pair_row;
  const float* pair_weight;
  const int64_t* pair_out;  // null: accumulate into y
  float* y;
  const float* x;
  float* inner_f32;     // [pairs, inner]
  Activations x_q;      // where `quantized`
  Activations inner_q;  // a row a pair
};

struct ScaleRange {
  float smallest, largest;
  int64_t bad;  // index of the first element that is not finite, or -1
};

// What each format offers.
struct FormatKernels {
  bool quantized;  // products take their input in int8 planes, not in fp32
  void (*matmul)(const Weights& w, const Inputs& x, const Part& part, float* y);
  void (*gate_up)(const MoeArgs& a, int64_t expert, int64_t group);  // inner rows [64 group, 64 group + 64)
  void (*down)(const MoeArgs& a, int64_t expert, int64_t block0, int64_t block1);  // blocks of 16 hidden rows
  // A row in fp32; out null: only checked. The first element that is not finite, or -1.
  int64_t (*row)(const Weights& w, int64_t row, float* out);
};

struct PackKernels {
  // One block of up to 16 rows of floats into int4 or int8; out null: the range only.
  ScaleRange (*pack_block)(const Weights& w, int64_t row, int64_t rows, Format format, float multiplier, uint8_t* out);
};

struct NarrowKernels {
  // One block of int4 or int8 into one of int3, whose weights are the same times the scales times narrow_factor().
  void (*narrow_block)(const uint8_t* block, Format format, int64_t cols, uint8_t* out);
};

struct InputKernels {
  void (*quantize)(const float* x, int64_t cols, const Activations& out, int64_t t0, int64_t t1);
  void (*combine)(const float* pairs, const int64_t* order, const float* weights, int64_t k, int64_t cols, float* y);
};

#define COLI_TABLES(path, x)                                    \
  namespace path {                                              \
  extern const FormatKernels* const format_kernels[kFormats];   \
  extern const PackKernels pack_kernels;                        \
  extern const NarrowKernels narrow_kernels;                    \
  extern const InputKernels input_kernels;                      \
  }
COLI_EACH_PATH(COLI_TABLES, )
#undef COLI_TABLES

}  // namespace coli
