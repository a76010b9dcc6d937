// 16 weights of e4m3: a sign, 4 bits of exponent (bias 7), 3 of mantissa; all but the sign set is NaN.
//   e4m3_256th(p): their values / 256. Moved by seven places the bits are those of fp16 with these values, subnormal
//   ones too. A NaN comes out as 480 / 256: NanCodes tells.
//   NanCodes: see(p) for every 64 codes, then any().
#pragma once
#include <cstring>

#include "simd.h"

namespace coli::COLI_PATH {

#if defined(__AVX2__)

COLI_INLINE __m256i e4m3_as_f16(const void* p) {
  __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p));
  // The sign has spread over the upper byte; of it one bit is kept.
  return _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((short)0xbf80));
}

#endif

#if defined(__AVX512F__)

COLI_INLINE f32x16 e4m3_256th(const uint8_t* p) { return {_mm512_cvtph_ps(e4m3_as_f16(p))}; }

struct NanCodes {
  __m512i most = _mm512_setzero_si512();
  __attribute__((always_inline)) void see(const uint8_t* p) {
    most = _mm512_max_epu8(most, _mm512_or_si512(_mm512_loadu_si512(p), _mm512_set1_epi8((char)0x80)));
  }
  __attribute__((always_inline)) bool any() const {
    return _mm512_cmpeq_epi8_mask(most, _mm512_set1_epi8((char)0xff)) != 0;
  }
};

#elif defined(__AVX2__)

COLI_INLINE f32x16 e4m3_256th(const uint8_t* p) {
  __m256i half = e4m3_as_f16(p);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}

struct NanCodes {
  __m256i most = _mm256_setzero_si256();
  __attribute__((always_inline)) void see(const uint8_t* p) {
    for (int i = 0; i < 64; i += 32) {
      __m256i codes = _mm256_loadu_si256((const __m256i*)(p + i));
      most = _mm256_max_epu8(most, _mm256_or_si256(codes, _mm256_set1_epi8((char)0x80)));
    }
  }
  __attribute__((always_inline)) bool any() const {
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(most, _mm256_set1_epi8((char)0xff))) != 0;
  }
};

#elif defined(__ARM_FEATURE_DOTPROD)

COLI_INLINE f32x16 e4m3_256th(const uint8_t* p) {
  int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(p));
  auto half = [](int8x8_t eight) {
    uint16x8_t bits = vreinterpretq_u16_s16(vshlq_n_s16(vmovl_s8(eight), 7));
    return vreinterpretq_f16_u16(vandq_u16(bits, vdupq_n_u16(0xbf80)));
  };
  float16x8_t a = half(vget_low_s8(codes)), b = half(vget_high_s8(codes));
  return {{vcvt_f32_f16(vget_low_f16(a)), vcvt_f32_f16(vget_high_f16(a)), vcvt_f32_f16(vget_low_f16(b)),
           vcvt_f32_f16(vget_high_f16(b))}};
}

struct NanCodes {
  uint8x16_t most = vdupq_n_u8(0);
  __attribute__((always_inline)) void see(const uint8_t* p) {
    for (int i = 0; i < 64; i += 16) most = vmaxq_u8(most, vorrq_u8(vld1q_u8(p + i), vdupq_n_u8(0x80)));
  }
  __attribute__((always_inline)) bool any() const { return vmaxvq_u8(most) == 0xff; }
};

#else

COLI_INLINE f32x16 e4m3_256th(const uint8_t* p) {
  return each<f32x16>([&](int i) { return half_to_float((uint16_t)((p[i] & 0x80) << 8 | (p[i] & 0x7f) << 7)); });
}

struct NanCodes {
  bool found = false;
  __attribute__((always_inline)) void see(const uint8_t* p) {
    for (int i = 0; i < 64; i++) found |= (p[i] & 0x7f) == 0x7f;
  }
  __attribute__((always_inline)) bool any() const { return found; }
};

#endif

}  // namespace coli::COLI_PATH
