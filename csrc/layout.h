// The r16-v1 layout of packed weights. A block is 16 rows x K inputs: the weights of all groups of 64 inputs, the
// fp16 scales [group][row], zeros up to a multiple of 64 bytes. Inside a group, 64-byte lines hold 4 bytes a row:
//   int4: line j of 8, byte b: low nibble = input 8j + b, high nibble = input 8j + 4 + b, both + 8
//   int8: line j of 16, byte b: input 4j + b, + 128
//   int3: the three high bits of an int4 code; only in memory. Of each code, line i of 4 holds the two low bits, byte
//         b at bit 2c: input 16i + 4c + b; line 4 + h, h of 2, the high one, byte b at bit k: input 32h + 4k + b
// The functions are static: this header is included in files compiled once per CPU path.
#pragma once
#include <cstdint>

namespace coli {

constexpr int kGroup = 64;
constexpr int kRows = 16;

enum class Scheme { int3 = 3, int4 = 4, int8 = 8 };
// e4m3 comes with a scale for each block of 128 x 128 weights: f32, bf16, or ue8m0, which is 2^(byte - 127).
enum class Dtype { f32 = 0, f16 = 1, bf16 = 2, e4m3 = 3, e4m3_bf16 = 4, e4m3_ue8m0 = 5 };
constexpr int kScaled = 128;  // rows, and inputs, that share a scale

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t groups_of(int64_t cols) { return ceil_div(cols, kGroup); }
static inline int64_t group_bytes(Scheme s) { return 128 * (int64_t)s; }
static inline int64_t block_bytes(Scheme s, int64_t cols) {
  return ceil_div(groups_of(cols) * (group_bytes(s) + 2 * kRows), 64) * 64;
}
static inline bool is_e4m3(Dtype d) { return d >= Dtype::e4m3; }
static inline int64_t element_bytes(Dtype d) { return d == Dtype::f32 ? 4 : is_e4m3(d) ? 1 : 2; }
static inline int64_t scale_bytes(Dtype d) { return d == Dtype::e4m3 ? 4 : d == Dtype::e4m3_bf16 ? 2 : 1; }

}  // namespace coli
