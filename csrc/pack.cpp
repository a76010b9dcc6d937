// Quantisation of weights into r16-v1 blocks. All in fp32, rounding to nearest even.
#include "quantize.h"

namespace coli::COLI_PATH {
namespace {

COLI_INLINE f32x16 load_as(const uint8_t* p, Format source) {
  return source == Format::f32 ? load((const float*)(const void*)p) : source == Format::f16 ? load_f16(p) : load_bf16(p);
}

// 64 inputs of a row from column `col`, zeros beyond the end.
COLI_INLINE void load_group(const uint8_t* row, Format source, int64_t col, int64_t cols, f32x16 out[4]) {
  int64_t size = element_bytes(source), left = cols - col;
  const uint8_t* p = row + col * size;
  if (left >= kGroup) {
    for (int i = 0; i < 4; i++) out[i] = load_as(p + 16 * i * size, source);
    return;
  }
  alignas(64) uint8_t padded[256] = {};
  std::memcpy(padded, p, (size_t)(left * size));
  for (int i = 0; i < 4; i++) out[i] = load_as(padded + 16 * i * size, source);
}

COLI_INLINE int32_t bits_max(const f32x16 w[4]) {
  i32x16 m = as_int(w[0]);
  for (int i = 1; i < 4; i++) m = imax(m, as_int(w[i]));
  return reduce_max(m);
}

float first_with(const f32x16 w[4], int32_t bits) {
  alignas(64) int32_t v[64];
  for (int i = 0; i < 4; i++) istore(v + 16 * i, as_int(w[i]));
  for (int i = 0; i < 64; i++)
    if ((v[i] & 0x7fffffff) == bits) return float_of_bits(v[i]);
  return 0.f;
}

// The element with the largest magnitude, the first of equals.
COLI_INLINE float signed_max(const f32x16 w[4], int32_t bits) {
  f32x16 negated[4];
  for (int i = 0; i < 4; i++) negated[i] = sub(zero(), w[i]);
  bool positive = bits_max(w) == bits, negative = bits_max(negated) == bits;
  if (positive == negative) return first_with(w, bits);
  return float_of_bits(bits | (int32_t)((uint32_t)negative << 31));
}

// Up to 16 rows of weights that are packed together.
template <Format source>
struct Rows {
  const uint8_t* data;
  int64_t count, cols;
  __attribute__((always_inline)) void load(int64_t r, int64_t g, f32x16 out[4]) const {
    load_group(data + r * cols * element_bytes(source), source, g * kGroup, cols, out);
  }
  int64_t first_bad() const {
    for (int64_t r = 0; r < count; r++)
      for (int64_t c = 0; c < cols; c += kGroup) {
        f32x16 w[4];
        alignas(64) int32_t v[64];
        load(r, c / kGroup, w);
        for (int i = 0; i < 4; i++) istore(v + 16 * i, as_int(w[i]));
        for (int i = 0; i < 64; i++)
          if ((v[i] & 0x7f800000) == 0x7f800000) return r * cols + c + i;
      }
    return -1;
  }
};

// What each row's scale of group g would be in fp32; false if a weight is not finite.
template <Format format, Format source>
COLI_INLINE bool raw_scales(const Rows<source>& rows, int64_t g, f32x16& scales) {
  alignas(64) float largest[kRows] = {};
  for (int64_t r = 0; r < rows.count; r++) {
    f32x16 w[4];
    rows.load(r, g, w);
    int32_t bits = abs_bits_max(w);
    if (bits >= 0x7f800000) return false;
    largest[r] = format == Format::int4 ? signed_max(w, bits) : float_of_bits(bits);
  }
  scales = div(load(largest), set1(format == Format::int4 ? -8.f : 127.f));
  return true;
}

// The scales as they are stored, and what the weights are divided by: 0 where the weights become zeros, also because
// fp16 (or fp32, times the multiplier) cannot hold the scale.
void stored_scales(f32x16 scales, float multiplier, uint16_t halves[kRows], float steps[kRows]) {
  alignas(64) float divided[kRows];
  store(divided, div(scales, set1(multiplier)));
  for (int r = 0; r < kRows; r++) halves[r] = to_half(divided[r]);
  store(steps, mul(load_f16(halves), set1(multiplier)));
  for (int r = 0; r < kRows; r++)
    if (steps[r] == 0.f) halves[r] = 0;
}

// Four inputs at a time; byte b of a word is input b.
template <Format format>
COLI_INLINE void put_weights(const int8_t q[64], int64_t r, uint8_t* out) {
  uint32_t four[16];
  std::memcpy(four, q, 64);
  if (format == Format::int4)
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

template <Format format, Format source>
COLI_INLINE void put_group(const Rows<source>& rows, int64_t g, const float steps[kRows], uint8_t* out) {
  f32x16 low = set1(format == Format::int4 ? -8.f : -127.f), high = set1(format == Format::int4 ? 7.f : 127.f);
  alignas(64) int8_t q[kRows][kGroup] = {};
  for (int64_t r = 0; r < rows.count; r++) {
    if (steps[r] == 0.f) continue;
    f32x16 w[4];
    rows.load(r, g, w);
    for (int i = 0; i < 4; i++) store_i8(q[r] + 16 * i, to_int(min(max(div(w[i], set1(steps[r])), low), high)));
  }
  for (int r = 0; r < kRows; r++) put_weights<format>(q[r], r, out);
}

// Smallest and largest scale so far of each row; the smallest that is not zero.
struct Ranges {
  f32x16 smallest = as_float(iset1(0x7f800000)), largest = zero();
  __attribute__((always_inline)) void widen(f32x16 scales) {
    f32x16 size = as_float(iand(as_int(scales), iset1(0x7fffffff)));
    smallest = select(less(zero(), size), min(size, smallest), smallest);
    largest = max(size, largest);
  }
  ScaleRange of_all_rows() const {
    alignas(64) float low[kRows], high[kRows];
    store(low, smallest);
    store(high, largest);
    ScaleRange range{low[0], high[0], -1};
    for (int r = 1; r < kRows; r++) {
      if (low[r] < range.smallest) range.smallest = low[r];
      if (high[r] > range.largest) range.largest = high[r];
    }
    return range;
  }
};

template <Format format, Format source>
ScaleRange pack_rows(const Rows<source>& rows, float multiplier, uint8_t* out) {
  Ranges ranges;
  int64_t groups = groups_of(rows.cols), bytes = group_bytes(format), used = groups * (bytes + 2 * kRows);
  if (out) std::memset(out + used, 0, (size_t)(block_bytes(format, rows.cols) - used));
  for (int64_t g = 0; g < groups; g++) {
    f32x16 scales;
    if (!raw_scales<format>(rows, g, scales)) return {0.f, 0.f, rows.first_bad()};
    ranges.widen(scales);
    if (!out) continue;
    uint16_t halves[kRows];
    alignas(64) float steps[kRows];
    stored_scales(scales, multiplier, halves, steps);
    put_group<format>(rows, g, steps, out + g * bytes);
    std::memcpy(out + groups * bytes + g * sizeof halves, halves, sizeof halves);
  }
  return ranges.of_all_rows();
}

template <Format source>
ScaleRange pack_as(const uint8_t* w, int64_t rows, int64_t cols, Format format, float multiplier, uint8_t* out) {
  Rows<source> block{w, rows, cols};
  return format == Format::int4 ? pack_rows<Format::int4>(block, multiplier, out)
                                : pack_rows<Format::int8>(block, multiplier, out);
}

ScaleRange pack_block(const Weights& w, int64_t row, int64_t rows, Format format, float multiplier, uint8_t* out) {
  const uint8_t* data = w.data + row * w.cols * element_bytes(w.format);
  switch (w.format) {
    case Format::f32: return pack_as<Format::f32>(data, rows, w.cols, format, multiplier, out);
    case Format::f16: return pack_as<Format::f16>(data, rows, w.cols, format, multiplier, out);
    default: return pack_as<Format::bf16>(data, rows, w.cols, format, multiplier, out);
  }
}

}  // namespace

extern const PackKernels pack_kernels;
const PackKernels pack_kernels{pack_block};

}  // namespace coli::COLI_PATH
