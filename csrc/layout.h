// What weights may be stored as, and the r16-v1 layout of packed ones. A packed block is 16 rows x K inputs: the weights
// of all groups of 64 inputs, the fp16 scales [group][row], zeros up to a multiple of 64 bytes. Inside a group, 64-byte
// lines hold 4 bytes a row:
//   int4: line j of 8, byte b: low nibble = input 8j + b, high nibble = input 8j + 4 + b, both + 8
//   int8: line j of 16, byte b: input 4j + b, + 128
//   int3: the three high bits of an int4 code; only in memory. Of each code, line i of 4 holds the two low bits, byte
//         b at bit 2c: input 16i + 4c + b; line 4 + h, h of 2, the high one, byte b at bit k: input 32h + 4k + b
// The functions are static: this header is included in files compiled once per CPU path.
#pragma once
#include <cstdint>

namespace coli {

// The code of a format says nothing but its place in this list, which colibri/formats/table.py repeats. All but the
// packed ones are row-major. e4m3 comes with a scale for each block of 128 x 128 weights: f32, bf16, or ue8m0, which is
// 2^(byte - 127).
enum class Format : uint8_t { f32, f16, bf16, e4m3, e4m3_bf16, e4m3_ue8m0, int3, int4, int8 };
constexpr int kFormats = 9;

constexpr int kGroup = 64;
constexpr int kRows = 16;
constexpr int kScaled = 128;  // rows, and inputs, that share a scale of e4m3

// Bits a weight of a packed format; 0 of others.
static inline constexpr int packed_bits(Format f) {
  return f == Format::int3 ? 3 : f == Format::int4 ? 4 : f == Format::int8 ? 8 : 0;
}
static inline constexpr bool is_packed(Format f) { return packed_bits(f) > 0; }
static inline constexpr bool is_e4m3(Format f) {
  return f == Format::e4m3 || f == Format::e4m3_bf16 || f == Format::e4m3_ue8m0;
}
// Bytes of a weight that is no part of a packed block, and of a scale.
static inline constexpr int64_t element_bytes(Format f) { return f == Format::f32 ? 4 : is_e4m3(f) ? 1 : 2; }
static inline constexpr int64_t scale_bytes(Format f) { return f == Format::e4m3 ? 4 : f == Format::e4m3_bf16 ? 2 : 1; }

static inline constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline constexpr int64_t groups_of(int64_t cols) { return ceil_div(cols, kGroup); }
static inline constexpr int64_t group_bytes(Format f) { return kGroup / 8 * kRows * packed_bits(f); }
static inline constexpr int64_t block_bytes(int bits, int64_t cols) {
  return ceil_div(groups_of(cols) * (kGroup / 8 * kRows * bits + 2 * kRows), 64) * 64;
}
static inline constexpr int64_t block_bytes(Format f, int64_t cols) { return block_bytes(packed_bits(f), cols); }

// The parts that a matrix lies in, at addresses of their own: its weights and, of formats that have them, its scales.
static inline constexpr int parts_of(Format f) { return is_e4m3(f) ? 2 : 1; }
// Bytes of part i of [rows, cols], whose row 0 is row `first` of its block of scales.
static inline constexpr int64_t part_bytes(Format f, int i, int64_t rows, int64_t cols, int64_t first) {
  if (i == 1) return ceil_div(first + rows, kScaled) * ceil_div(cols, kScaled) * scale_bytes(f);
  return is_packed(f) ? ceil_div(rows, kRows) * block_bytes(f, cols) : rows * cols * element_bytes(f);
}

}  // namespace coli
