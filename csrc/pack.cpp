// Quantisation of weights into r16-v1 blocks and back. All in fp32, rounding to nearest even.
#include "quantize.h"

namespace coli::COLI_PATH {
namespace {

COLI_INLINE f32x16 load_as(const uint8_t* p, Dtype dtype) {
  return dtype == Dtype::f32 ? load((const float*)(const void*)p) : dtype == Dtype::f16 ? load_f16(p) : load_bf16(p);
}

// 64 inputs of a row from column `col`, zeros beyond the end.
COLI_INLINE void load_group(const uint8_t* row, Dtype dtype, int64_t col, int64_t cols, f32x16 out[4]) {
  int64_t size = element_bytes(dtype), left = cols - col;
  alignas(64) uint8_t padded[256] = {};
  const uint8_t* p = row + col * size;
  if (left < 64) {
    std::memcpy(padded, p, (size_t)(left * size));
    p = padded;
  }
  for (int i = 0; i < 4; i++) out[i] = load_as(p + 16 * i * size, dtype);
}

int32_t bits_max(const f32x16 w[4]) {
  i32x16 m = as_int(w[0]);
  for (int i = 1; i < 4; i++) m = imax(m, as_int(w[i]));
  return reduce_max(m);
}

// The element with the largest magnitude, the first of equals.
float signed_max(const f32x16 w[4], int32_t bits) {
  f32x16 negated[4];
  for (int i = 0; i < 4; i++) negated[i] = sub(zero(), w[i]);
  bool positive = bits_max(w) == bits, negative = bits_max(negated) == bits;
  if (positive != negative) return positive ? float_of_bits(bits) : -float_of_bits(bits);
  alignas(64) int32_t v[64];
  for (int i = 0; i < 4; i++) istore(v + 16 * i, as_int(w[i]));
  for (int i = 0; i < 64; i++)
    if ((v[i] & 0x7fffffff) == bits) return float_of_bits(v[i]);
  return 0.f;
}

// q [64] with its scale; a scale that fp16 (or fp32, times the multiplier) cannot hold gives zeros.
uint16_t quantize_weights(const f32x16 w[4], int32_t bits, Scheme scheme, float multiplier, int8_t q[64]) {
  bool int4 = scheme == Scheme::int4;
  float raw = int4 ? signed_max(w, bits) / -8.f : float_of_bits(bits) / 127.f;
  uint16_t half = to_half(raw / multiplier);
  uint16_t padded[16] = {half};
  alignas(64) float first[16];
  store(first, load_f16(padded));
  float step = first[0] * multiplier;
  if (step == 0.f) {
    std::memset(q, 0, 64);
    return 0;
  }
  f32x16 low = set1(int4 ? -8.f : -127.f), high = set1(int4 ? 7.f : 127.f);
  for (int i = 0; i < 4; i++) store_i8(q + 16 * i, to_int(min(max(round_even(div(w[i], set1(step))), low), high)));
  return half;
}

// Four inputs at a time; byte b of a word is input b.
void put_weights(const int8_t q[64], Scheme scheme, int r, uint8_t* out) {
  uint32_t four[16];
  std::memcpy(four, q, 64);
  if (scheme == Scheme::int4)
    for (int j = 0; j < 8; j++) {
      // + 8: of a number in -8..7 its four low bits, the highest of them flipped
      uint32_t pair = ((four[2 * j] & 0x0f0f0f0fu) | (four[2 * j + 1] & 0x0f0f0f0fu) << 4) ^ 0x88888888u;
      std::memcpy(out + 64 * j + 4 * r, &pair, 4);
    }
  else
    for (int j = 0; j < 16; j++) {
      uint32_t word = four[j] ^ 0x80808080u;  // + 128: the highest bit flipped
      std::memcpy(out + 64 * j + 4 * r, &word, 4);
    }
}

void widen(ScaleRange& range, float scale) {
  if (scale == 0.f) return;
  if (scale < range.smallest) range.smallest = scale;
  if (scale > range.largest) range.largest = scale;
}

int64_t first_bad(const f32x16 w[4]) {
  alignas(64) int32_t v[64];
  for (int i = 0; i < 4; i++) istore(v + 16 * i, as_int(w[i]));
  int64_t i = 0;
  while ((v[i] & 0x7f800000) != 0x7f800000) i++;
  return i;
}

ScaleRange pack_block(const uint8_t* w, Dtype dtype, int64_t rows, int64_t cols, Scheme scheme, float multiplier,
                      uint8_t* out) {
  ScaleRange range{float_of_bits(0x7f800000), 0.f, -1};
  int64_t groups = groups_of(cols), bytes = group_bytes(scheme), used = groups * (bytes + 32);
  if (out) std::memset(out + used, 0, (size_t)(block_bytes(scheme, cols) - used));
  for (int r = 0; r < kRows; r++)
    for (int64_t g = 0; g < groups; g++) {
      f32x16 v[4] = {zero(), zero(), zero(), zero()};
      if (r < rows) load_group(w + r * cols * element_bytes(dtype), dtype, g * kGroup, cols, v);
      int32_t bits = abs_bits_max(v);
      if (bits >= 0x7f800000) {
        range.bad = r * cols + g * kGroup + first_bad(v);
        return range;
      }
      widen(range, float_of_bits(bits) / (scheme == Scheme::int4 ? 8.f : 127.f));
      if (!out) continue;
      alignas(64) int8_t q[64];
      uint16_t half = quantize_weights(v, bits, scheme, multiplier, q);
      put_weights(q, scheme, r, out + g * bytes);
      std::memcpy(out + groups * bytes + g * 32 + 2 * r, &half, 2);
    }
  return range;
}

void unpack_row(const PackedWeights& w, int64_t row, float* out) {
  int64_t groups = groups_of(w.cols), bytes = group_bytes(w.scheme), r = row % kRows;
  const uint8_t* block = w.data + row / kRows * block_bytes(w.scheme, w.cols);
  for (int64_t g = 0; g < groups; g++) {
    alignas(64) float s[16];
    store(s, mul(load_f16(block + groups * bytes + 32 * g), set1(w.multiplier)));
    for (int64_t i = 0; i < kGroup && g * kGroup + i < w.cols; i++) {
      int q;
      if (w.scheme == Scheme::int4) {
        uint8_t byte = block[g * bytes + i / 8 * 64 + 4 * r + i % 4];
        q = (i % 8 < 4 ? byte & 15 : byte >> 4) - 8;
      } else {
        q = block[g * bytes + i / 4 * 64 + 4 * r + i % 4] - 128;
      }
      out[g * kGroup + i] = (float)q * s[r];
    }
  }
}

void dense_row(const DenseWeights& w, int64_t row, float* out) {
  const uint8_t* p = w.data + row * w.cols * element_bytes(w.dtype);
  for (int64_t c = 0; c < w.cols; c += kGroup) {
    f32x16 v[4];
    load_group(p, w.dtype, c, w.cols, v);
    for (int i = 0; i < 4 && c + 16 * i < w.cols; i++)
      store_n(out + c + 16 * i, v[i], (int)(w.cols - c - 16 * i < 16 ? w.cols - c - 16 * i : 16));
  }
}

}  // namespace

extern const PackKernels pack_kernels;
const PackKernels pack_kernels{pack_block, unpack_row, dense_row};

}  // namespace coli::COLI_PATH
