#include "weights.h"

namespace vectors {
namespace {

uint32_t bits_of(float x) {
  uint32_t w;
  std::memcpy(&w, &x, 4);
  return w;
}

// Cut, not rounded; what fp16 cannot hold becomes infinite or a multiple of 2^-24.
uint16_t half_of(float x) {
  uint32_t w = bits_of(x), sign = w >> 16 & 0x8000u, mag = w & 0x7fffffffu;
  if (mag > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (mag >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
  if (mag >= 0x38800000u) return (uint16_t)(sign | (mag - 0x38000000u) >> 13);
  float m;
  std::memcpy(&m, &mag, 4);
  return (uint16_t)(sign | (uint32_t)(m * 0x1p24f));
}

}  // namespace

Stored::Stored(const Floats& x, coli::Dtype dtype) : bytes_(1) {
  for (float v : x) {
    uint32_t w = dtype == coli::Dtype::f32 ? bits_of(v) : dtype == coli::Dtype::f16 ? half_of(v) : bits_of(v) >> 16;
    for (int b = 0; b < coli::element_bytes(dtype); b++) bytes_.push_back((uint8_t)(w >> 8 * b));
  }
}

std::vector<uint8_t> packed(const Floats& w, int64_t rows, int64_t cols, int bits, float multiplier) {
  if (bits == 3) return narrowed(packed(w, rows, cols, 4, multiplier), rows, cols, 4);
  auto scheme = (coli::Scheme)bits;
  std::vector<uint8_t> out((size_t)(coli::ceil_div(rows, coli::kRows) * coli::block_bytes(scheme, cols)));
  Stored stored(w, coli::Dtype::f32);
  coli::pack(stored.data(), coli::Dtype::f32, rows, cols, scheme, multiplier, out.data());
  return out;
}

std::vector<uint8_t> narrowed(const std::vector<uint8_t>& blocks, int64_t rows, int64_t cols, int bits) {
  int64_t size = coli::ceil_div(rows, coli::kRows) * coli::block_bytes(coli::Scheme::int3, cols);
  std::vector<uint8_t> out((size_t)size, 0xee);
  coli::narrow(blocks.data(), rows, cols, (coli::Scheme)bits, out.data());
  return out;
}

}  // namespace vectors
