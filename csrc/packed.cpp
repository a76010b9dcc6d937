// Products with packed weights, one block of 16 rows and a tile of activation rows at a time.
// y = multiplier * sum over groups, ascending, of fma(float(isum), scale_w * scale_x, acc): isum is exact, so an
// element's bits depend on nothing but its own inputs.
#include "quantize.h"

namespace coli::COLI_PATH {
namespace {

// Sums of the products of group g. Ahead: with a fetch of what lies 8 kB further on.
template <int Bits, int Rows, bool Ahead>
COLI_INLINE void sum_group(const uint8_t* block, int64_t groups, const uint8_t* const* rows, int64_t g, i32x16 (&sums)[Rows]) {
  using D = Dots<Bits, Rows>;
  constexpr int kBytes = Bits * 128, kLine = kBytes / D::kLines;
  const uint8_t* w = block + g * kBytes;
  D dots;
#pragma GCC unroll 8
  for (int t = 0; t < Rows; t++) dots.start(t, load_i32(rows[t] + groups * 64 + g * 8 + 4));
#pragma GCC unroll 16
  for (int j = 0; j < D::kLines; j++) {
    for (int b = 0; Ahead && b < kLine; b += 64) prefetch(w + kLine * j + b + 8192);
    dots.add(D::weights(w, j), rows, g * 64 + D::kInputs * j, j);
    if (j % D::kFold == D::kFold - 1) dots.fold();
  }
#pragma GCC unroll 8
  for (int t = 0; t < Rows; t++) sums[t] = dots.sum(t);
}

template <int Rows>
COLI_INLINE void add_group(const uint8_t* scales, int64_t groups, const uint8_t* const* rows, int64_t g,
                           const i32x16 (&sums)[Rows], f32x16 (&acc)[Rows]) {
  f32x16 s = load_f16(scales + 32 * g);
#pragma GCC unroll 8
  for (int t = 0; t < Rows; t++) {
    f32x16 sx = set1(float_of_bits(load_i32(rows[t] + groups * 64 + g * 8)));
    acc[t] = fma(to_float(sums[t]), mul(s, sx), acc[t]);
  }
}

template <int Rows> COLI_INLINE void store_rows(const f32x16 (&acc)[Rows], float (*out)[16]) {
#pragma GCC unroll 8
  for (int t = 0; t < Rows; t++) store(out[t], acc[t]);
}

template <int Bits, int Rows> void tile(const uint8_t* block, int64_t groups, const uint8_t* const* rows, float (*out)[16]) {
  const uint8_t* scales = block + groups * Bits * 128;
  int64_t size = block_bytes(Bits, groups * kGroup);
  f32x16 acc[Rows];
  for (int t = 0; t < Rows; t++) acc[t] = zero();
  for (int64_t g = 0; g < groups; g++) {
    i32x16 sums[Rows];
    sum_group<Bits, Rows, true>(block, groups, rows, g, sums);
    prefetch(scales + size + 32 * g);  // of the next block
    add_group(scales, groups, rows, g, sums, acc);
  }
  store_rows(acc, out);
}

// Groups times rows that stream() takes: with more, its sums and activations are pushed out of the first-level cache.
constexpr int64_t kStreamed = 64;

// The same. A block lies in memory as its weights, then its scales, then the next block. Read in just that order it is
// a stream that the hardware foresees, and comes twice as fast as with each group's scales next to its weights.
template <int Bits, int Rows> void stream(const uint8_t* block, int64_t groups, const uint8_t* const* rows, float (*out)[16]) {
  i32x16 sums[kStreamed / Rows][Rows];
  f32x16 acc[Rows];
  for (int t = 0; t < Rows; t++) acc[t] = zero();
  for (int64_t g = 0; g < groups; g++) sum_group<Bits, Rows, false>(block, groups, rows, g, sums[g]);
  for (int64_t g = 0; g < groups; g++) add_group(block + groups * Bits * 128, groups, rows, g, sums[g], acc);
  store_rows(acc, out);
}

template <int Bits> void rows_of_block(const uint8_t* block, int64_t groups, const uint8_t* const* rows, int n,
                                       float (*out)[16]) {
  if (n == 1 && groups <= kStreamed) return stream<Bits, 1>(block, groups, rows, out);
  if (n == 2 && 2 * groups <= kStreamed) return stream<Bits, 2>(block, groups, rows, out);
  int t = 0;
  if constexpr (kTile >= 8)
    for (; t + 8 <= n; t += 8) tile<Bits, 8>(block, groups, rows + t, out + t);
  for (; t + 4 <= n; t += 4) tile<Bits, 4>(block, groups, rows + t, out + t);
  for (; t + 2 <= n; t += 2) tile<Bits, 2>(block, groups, rows + t, out + t);
  for (; t < n; t++) tile<Bits, 1>(block, groups, rows + t, out + t);
}

struct Block {
  const uint8_t* data;
  float multiplier;
};

int tile_tokens(const Activations& x) { return kTile / x.planes; }

// out[i] = the block's 16 rows times token i, n <= tile_tokens(x).
template <int Bits> void product(const Block& b, const Activations& x, const int64_t* tokens, int n, f32x16* out) {
  alignas(64) float sums[kTile][16];
  const uint8_t* rows[kTile];
  for (int t = 0; t < n; t++)
    for (int p = 0; p < x.planes; p++) rows[t * x.planes + p] = x.row(tokens[t], p);
  rows_of_block<Bits>(b.data, x.groups, rows, n * x.planes, sums);
  for (int t = 0; t < n; t++) {
    f32x16 y = load(sums[t * x.planes]);
    if (x.planes == 2) y = add(y, load(sums[2 * t + 1]));
    out[t] = mul(y, set1(b.multiplier));
  }
}

template <int Bits> void matmul(const Weights& w, const Inputs& inputs, const Part& part, float* y) {
  const Activations& x = inputs.q;
  int64_t size = block_bytes(w.format, w.cols), step = tile_tokens(x);
  for (int64_t row = part.row0; row < part.row1; row += kRows) {
    Block b{w.data + row / kRows * size, w.multiplier};
    int wide = (int)(w.rows - row < kRows ? w.rows - row : kRows);
    for (int64_t t = part.t0; t < part.t1; t += step) {
      int n = (int)(part.t1 - t < step ? part.t1 - t : step);
      int64_t tokens[kTile];
      f32x16 out[kTile];
      for (int i = 0; i < n; i++) tokens[i] = (t + i) * part.token_step + part.token_first;
      product<Bits>(b, x, tokens, n, out);
      for (int i = 0; i < n; i++) store_n(y + (t + i) * w.rows + row, out[i], wide);
    }
  }
}

// 64 inner rows of gate and up, SwiGLU, and their quantisation: one group of the input of down.
template <int Bits> void gate_up(const MoeArgs& a, int64_t expert, int64_t group) {
  int64_t size = block_bytes(a.format, a.hidden), blocks = ceil_div(a.inner, kRows), step = tile_tokens(a.x_q);
  auto* gate = (const uint8_t*)a.parts[3 * expert];
  auto* up = (const uint8_t*)a.parts[3 * expert + 1] + size;
  const float* m = a.multipliers + 3 * expert;
  const f32x16 limit = set1(a.limit);
  for (int64_t p = a.pair_start[expert], end = a.pair_start[expert + 1]; p < end; p += step) {
    int n = (int)(end - p < step ? end - p : step);
    f32x16 act[kTile][4], g[kTile], u[kTile];
    for (int i = 0; i < 4; i++) {
      int64_t block = group * 4 + i;
      if (block < blocks) {
        product<Bits>({gate + 2 * block * size, m[0]}, a.x_q, a.pair_row + p, n, g);
        product<Bits>({up + 2 * block * size, m[1]}, a.x_q, a.pair_row + p, n, u);
      }
      for (int t = 0; t < n; t++) act[t][i] = block < blocks ? swiglu(g[t], u[t], limit) : zero();
    }
    for (int t = 0; t < n; t++) quantize_group(act[t], a.inner_q, p + t, group);
  }
}

template <int Bits> void down(const MoeArgs& a, int64_t expert, int64_t block0, int64_t block1) {
  int64_t size = block_bytes(a.format, a.inner), step = tile_tokens(a.inner_q);
  auto* data = (const uint8_t*)a.parts[3 * expert + 2];
  int64_t first = a.pair_start[expert], end = a.pair_start[expert + 1];
  for (int64_t block = block0; block < block1; block++) {
    Block b{data + block * size, a.multipliers[3 * expert + 2]};
    int wide = (int)(a.hidden - block * kRows < kRows ? a.hidden - block * kRows : kRows);
    for (int64_t p = first; p < end; p += step) {
      int n = (int)(end - p < step ? end - p : step);
      int64_t pairs[kTile];
      f32x16 out[kTile];
      for (int i = 0; i < n; i++) pairs[i] = p + i;
      product<Bits>(b, a.inner_q, pairs, n, out);
      for (int i = 0; i < n; i++) {
        int64_t row = a.pair_out ? a.pair_out[p + i] : a.pair_row[p + i];
        float* y = a.y + row * a.hidden + block * kRows;
        if (!a.pair_out) out[i] = fma(set1(a.pair_weight[p + i]), out[i], load_n(y, wide));
        store_n(y, out[i], wide);
      }
    }
  }
}

// The code of input i of row r in a group.
template <int Bits> int code_of(const uint8_t* group, int64_t r, int64_t i) {
  if constexpr (Bits == 3) {
    int low = group[i / 16 * 64 + 4 * r + i % 4] >> (i / 4 % 4 * 2) & 3;
    int high = group[256 + i / 32 * 64 + 4 * r + i % 4] >> (i / 4 % 8) & 1;
    return 4 * (low | high << 2) - 15;
  } else if constexpr (Bits == 4) {
    uint8_t byte = group[i / 8 * 64 + 4 * r + i % 4];
    return (i % 8 < 4 ? byte & 15 : byte >> 4) - 8;
  } else {
    return group[i / 4 * 64 + 4 * r + i % 4] - 128;
  }
}

// What packing writes is finite.
template <int Bits> int64_t decode_row(const Weights& w, int64_t row, float* out) {
  if (!out) return -1;
  int64_t groups = groups_of(w.cols), bytes = group_bytes(w.format), r = row % kRows;
  const uint8_t* block = w.data + row / kRows * block_bytes(w.format, w.cols);
  for (int64_t g = 0; g < groups; g++) {
    alignas(64) float s[16];
    store(s, mul(load_f16(block + groups * bytes + 32 * g), set1(w.multiplier)));
    for (int64_t i = 0; i < kGroup && g * kGroup + i < w.cols; i++)
      out[g * kGroup + i] = (float)code_of<Bits>(block + g * bytes, r, i) * s[r];
  }
  return -1;
}

template <int Bits>
constexpr FormatKernels kKernels{true, matmul<Bits>, gate_up<Bits>, down<Bits>, decode_row<Bits>};

}  // namespace

extern const FormatKernels int3_kernels, int4_kernels, int8_kernels;
const FormatKernels int3_kernels = kKernels<3>, int4_kernels = kKernels<4>, int8_kernels = kKernels<8>;

}  // namespace coli::COLI_PATH
