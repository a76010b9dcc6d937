// Packed weights to three bits, in integers: the three high bits of an int4 code stand for the middle of the two codes
// that have them, so 2 u - 7.5 = (4 u - 15) / 2 in steps of int4. The 256 codes of int8 are cut into the same eighths,
// mirrored (with the sign of the scale) where the largest weight is positive, for the range reaches further below zero.
#include <cstring>

#include "matmul_kernels.h"
#include "simd/simd.h"

namespace coli::COLI_PATH {
namespace {

constexpr int kWords = 8;  // of 8 bytes a line
using Line = uint64_t[kWords];
constexpr uint64_t kEach = 0x0101010101010101u;  // times a byte: that byte, eight times

COLI_INLINE void read(const uint8_t* p, Line line) { std::memcpy(line, p, sizeof(Line)); }
COLI_INLINE void write(uint8_t* p, const Line line) { std::memcpy(p, line, sizeof(Line)); }

// Codes of 8 inputs, as line j of int4 has them, into the planes of int3.
COLI_INLINE void put(const Line nibbles, int j, Line low[4], Line high[2]) {
  for (int i = 0; i < kWords; i++) {
    uint64_t n = nibbles[i];
    low[j / 2][i] |= ((n >> 1 & 0x03 * kEach) | (n >> 3 & 0x0c * kEach)) << (4 * (j % 2));
    high[j / 4][i] |= ((n >> 3 & 0x01 * kEach) | (n >> 6 & 0x02 * kEach)) << (2 * (j % 4));
  }
}

struct Planes {
  alignas(64) Line low[4] = {}, high[2] = {};
  __attribute__((always_inline)) void store(uint8_t* out) const {
    for (int i = 0; i < 4; i++) write(out + 64 * i, low[i]);
    for (int i = 0; i < 2; i++) write(out + 256 + 64 * i, high[i]);
  }
};

COLI_INLINE void narrow_int4(const uint8_t* group, uint8_t* out) {
  Planes planes;
  for (int j = 0; j < 8; j++) {
    alignas(64) Line nibbles;
    read(group + 64 * j, nibbles);
    put(nibbles, j, planes.low, planes.high);
  }
  planes.store(out);
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
  Planes planes;
  for (int j = 0; j < 8; j++) {
    uint8_t codes[64];
    const uint8_t *low = group + 128 * j, *high = low + 64;
    for (int i = 0; i < 64; i++)
      codes[i] = (uint8_t)(code_of(low[i], mirror[i]) | code_of(high[i], mirror[i]) << 4);
    alignas(64) Line nibbles;
    read(codes, nibbles);
    put(nibbles, j, planes.low, planes.high);
  }
  planes.store(out);
  for (int r = 0; r < kRows; r++) scales[r] = (uint16_t)(scales[r] ^ (mirror[4 * r] & 0x80) << 8);
}

void narrow_block(const uint8_t* block, Scheme scheme, int64_t cols, uint8_t* out) {
  int64_t groups = groups_of(cols), from = group_bytes(scheme), to = group_bytes(Scheme::int3);
  for (int64_t g = 0; g < groups; g++) {
    uint16_t scales[kRows];
    std::memcpy(scales, block + groups * from + g * sizeof scales, sizeof scales);
    if (scheme == Scheme::int4) narrow_int4(block + g * from, out + g * to);
    else narrow_int8(block + g * from, out + g * to, scales);
    std::memcpy(out + groups * to + g * sizeof scales, scales, sizeof scales);
  }
  int64_t used = groups * (to + 2 * kRows);
  std::memset(out + used, 0, (size_t)(block_bytes(Scheme::int3, cols) - used));
}

}  // namespace

extern const NarrowKernels narrow_kernels;
const NarrowKernels narrow_kernels{narrow_block};

}  // namespace coli::COLI_PATH
