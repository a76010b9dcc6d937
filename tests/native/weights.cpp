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

// Cut, not rounded; beyond 448 the largest, and NaN for what is none.
uint8_t e4m3_of(float x) {
  uint32_t w = bits_of(x), sign = w >> 24 & 0x80u, mag = w & 0x7fffffffu;
  if (mag > 0x7f800000u) return (uint8_t)(sign | 0x7fu);
  if (mag >= 0x43e00000u) return (uint8_t)(sign | 0x7eu);
  if (mag >= 0x3c800000u) return (uint8_t)(sign | (mag - 0x3c000000u) >> 20);
  float m;
  std::memcpy(&m, &mag, 4);
  return (uint8_t)(sign | (uint32_t)(m * 512.f));
}

uint32_t stored(float x, coli::Dtype dtype) {
  if (coli::is_e4m3(dtype)) return e4m3_of(x * 8.f);
  return dtype == coli::Dtype::f32 ? bits_of(x) : dtype == coli::Dtype::f16 ? half_of(x) : bits_of(x) >> 16;
}

}  // namespace

Stored::Stored(const Floats& x, int64_t rows, int64_t cols, coli::Dtype dtype)
    : dtype_(dtype), rows_(rows), cols_(cols), bytes_(1), scales_(1) {
  for (float v : x)
    for (int b = 0; b < coli::element_bytes(dtype); b++) bytes_.push_back((uint8_t)(stored(v, dtype) >> 8 * b));
  if (!coli::is_e4m3(dtype)) return;
  for (int64_t i = 0; i < coli::ceil_div(rows, coli::kScaled) * coli::ceil_div(cols, coli::kScaled); i++) {
    uint32_t scale = 124 + (uint32_t)i % 3;
    if (dtype != coli::Dtype::e4m3_ue8m0) scale = bits_of((float)(i + 1) / 24.f);
    if (dtype == coli::Dtype::e4m3_bf16) scale >>= 16;
    for (int b = 0; b < coli::scale_bytes(dtype); b++) scales_.push_back((uint8_t)(scale >> 8 * b));
  }
}

std::vector<uint8_t> packed(const Floats& w, int64_t rows, int64_t cols, int bits, float multiplier) {
  if (bits == 3) return narrowed(packed(w, rows, cols, 4, multiplier), rows, cols, 4);
  auto scheme = (coli::Scheme)bits;
  std::vector<uint8_t> out((size_t)(coli::ceil_div(rows, coli::kRows) * coli::block_bytes(scheme, cols)));
  Stored stored(w, rows, cols, coli::Dtype::f32);
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
