// Packed weights to three bits, in integers: the three high bits of an int4 code stand for the middle of the two codes
// that have them, so 2 u - 7.5 = (4 u - 15) / 2 in steps of int4. The 256 codes of int8 are cut into the same eighths,
// mirrored (with the sign of the scale) where the largest weight is positive, for the range reaches further below zero.
#include <cstring>

#include "matmul_kernels.h"
#include "simd/simd.h"

namespace coli::COLI_PATH {
namespace {

using Line = uint64_t[8];                        // 64 bytes
constexpr uint64_t kEach = 0x0101010101010101u;  // times a byte: that byte, eight times

// Of two codes a byte, in their nibbles: the two middle bits, at 0..1 and 2..3, and the high bits, at 0 and 1.
COLI_INLINE uint64_t low_bits(uint64_t n) { return (n >> 1 & 0x03 * kEach) | (n >> 3 & 0x0c * kEach); }
COLI_INLINE uint64_t high_bits(uint64_t n) { return (n >> 3 & 0x01 * kEach) | (n >> 6 & 0x02 * kEach); }

// A group's 8 lines of int4 codes into the 6 of int3, without the lowest bits.
COLI_INLINE void narrow_codes(const uint8_t* codes, uint8_t* out) {
  alignas(64) Line n[8], o[6];
  std::memcpy(n, codes, sizeof n);
  for (int i = 0; i < 8; i++) {
#pragma GCC unroll 4
    for (int l = 0; l < 4; l++) o[l][i] = low_bits(n[2 * l][i]) | low_bits(n[2 * l + 1][i]) << 4;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      const Line* four = n + 4 * h;
      uint64_t two = high_bits(four[0][i]) | high_bits(four[1][i]) << 2;
      o[4 + h][i] = two | high_bits(four[2][i]) << 4 | high_bits(four[3][i]) << 6;
    }
  }
  std::memcpy(out, o, sizeof o);
}

// For each row 255 where its largest weight of the group is positive (0 of equals), at each of its 4 bytes of a line.
COLI_INLINE void mirrored(const uint8_t* group, uint8_t mirror[64]) {
  uint8_t most[64], least[64];
  std::memcpy(most, group, 64), std::memcpy(least, group, 64);
  for (int j = 1; j < 16; j++)
    for (int i = 0; i < 64; i++) {
      uint8_t v = group[64 * j + i];
      most[i] = v > most[i] ? v : most[i];
      least[i] = v < least[i] ? v : least[i];
    }
  for (int r = 0; r < kRows; r++) {
    int high = 0, low = 255;
    for (int b = 4 * r; b < 4 * r + 4; b++) {
      high = most[b] > high ? most[b] : high;
      low = least[b] < low ? least[b] : low;
    }
    std::memset(mirror + 4 * r, high - 128 > 128 - low ? 255 : 0, 4);
  }
}

// The high nibble of the code of an input q + 128 in 1..255: 2 u, where weights 32 u - 136 up to 32 u - 105 have code u.
COLI_INLINE uint8_t code_of(uint8_t v, uint8_t mirror) {
  auto w = (uint8_t)((v ^ mirror) - mirror);  // 256 - v where mirrored
  auto shifted = (uint8_t)(w > 247 ? 255 : w + 8);
  return (uint8_t)(shifted >> 5 << 1);
}

COLI_INLINE void narrow_int8(const uint8_t* group, uint8_t* out, uint16_t scales[kRows]) {
  uint8_t mirror[64];
  mirrored(group, mirror);
  uint8_t codes[512];
  for (int j = 0; j < 8; j++)
    for (int i = 0; i < 64; i++) {
      const uint8_t* low = group + 128 * j + i;
      codes[64 * j + i] = (uint8_t)(code_of(low[0], mirror[i]) | code_of(low[64], mirror[i]) << 4);
    }
  narrow_codes(codes, out);
  for (int r = 0; r < kRows; r++) scales[r] = (uint16_t)(scales[r] ^ (mirror[4 * r] & 0x80) << 8);
}

void narrow_block(const uint8_t* block, Format format, int64_t cols, uint8_t* out) {
  int64_t groups = groups_of(cols), from = group_bytes(format), to = group_bytes(Format::int3);
  for (int64_t g = 0; g < groups; g++) {
    uint16_t scales[kRows];
    std::memcpy(scales, block + groups * from + g * sizeof scales, sizeof scales);
    if (format == Format::int4) narrow_codes(block + g * from, out + g * to);
    else narrow_int8(block + g * from, out + g * to, scales);
    std::memcpy(out + groups * to + g * sizeof scales, scales, sizeof scales);
  }
  int64_t used = groups * (to + 2 * kRows);
  std::memset(out + used, 0, (size_t)(block_bytes(Format::int3, cols) - used));
}

}  // namespace

extern const NarrowKernels narrow_kernels;
const NarrowKernels narrow_kernels{narrow_block};

}  // namespace coli::COLI_PATH
