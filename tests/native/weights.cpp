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

uint32_t stored(float x, coli::Format format) {
  if (coli::is_e4m3(format)) return e4m3_of(x * 8.f);
  return format == coli::Format::f32 ? bits_of(x) : format == coli::Format::f16 ? half_of(x) : bits_of(x) >> 16;
}

}  // namespace

Stored::Stored(const Floats& x, int64_t rows, int64_t cols, coli::Format format)
    : format_(format), rows_(rows), cols_(cols), bytes_(1), scales_(1) {
  for (float v : x)
    for (int b = 0; b < coli::element_bytes(format); b++) bytes_.push_back((uint8_t)(stored(v, format) >> 8 * b));
  if (!coli::is_e4m3(format)) return;
  for (int64_t i = 0; i < coli::ceil_div(rows, coli::kScaled) * coli::ceil_div(cols, coli::kScaled); i++) {
    uint32_t scale = 124 + (uint32_t)i % 3;
    if (format != coli::Format::e4m3_ue8m0) scale = bits_of((float)(i + 1) / 24.f);
    if (format == coli::Format::e4m3_bf16) scale >>= 16;
    for (int b = 0; b < coli::scale_bytes(format); b++) scales_.push_back((uint8_t)(scale >> 8 * b));
  }
}

std::vector<uint8_t> packed(const Floats& w, int64_t rows, int64_t cols, coli::Format format, float multiplier) {
  using coli::Format;
  if (format == Format::int3) return narrowed(packed(w, rows, cols, Format::int4, multiplier), rows, cols, Format::int4);
  std::vector<uint8_t> out((size_t)coli::part_bytes(format, 0, rows, cols, 0));
  Stored stored(w, rows, cols, Format::f32);
  coli::pack(stored.weights(), format, multiplier, out.data());
  return out;
}

std::vector<uint8_t> narrowed(const std::vector<uint8_t>& blocks, int64_t rows, int64_t cols, coli::Format format) {
  std::vector<uint8_t> out((size_t)coli::part_bytes(coli::Format::int3, 0, rows, cols, 0), 0xee);
  coli::narrow({blocks.data(), format, rows, cols}, out.data());
  return out;
}

}  // namespace vectors
