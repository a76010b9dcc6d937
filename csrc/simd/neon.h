// 16 lanes in four 128-bit registers of AArch64.
#pragma once
#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace coli::COLI_PATH {

#define COLI_INLINE static inline __attribute__((always_inline))

constexpr int kRegisters = 8;  // values of 16 lanes that fit

struct f32x16 { float32x4_t v[4]; };  // lanes 0..3, 4..7, 8..11, 12..15
struct i32x16 { int32x4_t v[4]; };
struct mask16 { uint32x4_t v[4]; };

// f(0) .. f(3), one a register.
template <class R, class F> COLI_INLINE R each(F f) { return {{f(0), f(1), f(2), f(3)}}; }

COLI_INLINE f32x16 load(const float* p) { return each<f32x16>([=](int i) { return vld1q_f32(p + 4 * i); }); }
COLI_INLINE void store(float* p, f32x16 a) {
  for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.v[i]);
}
COLI_INLINE f32x16 set1(float a) { return each<f32x16>([=](int) { return vdupq_n_f32(a); }); }
COLI_INLINE f32x16 held(f32x16 x) { return x; }
COLI_INLINE f32x16 zero() { return set1(0.f); }
// The first n (0..16) floats, zeros after: never reads past p + n.
COLI_INLINE f32x16 load_first(const float* p, int n) {
  float t[16] = {};
  std::memcpy(t, p, sizeof(float) * (size_t)n);
  return load(t);
}
COLI_INLINE void store_first(float* p, f32x16 a, int n) {
  float t[16];
  store(t, a);
  std::memcpy(p, t, sizeof(float) * (size_t)n);
}
COLI_INLINE f32x16 add(f32x16 a, f32x16 b) { return each<f32x16>([=](int i) { return vaddq_f32(a.v[i], b.v[i]); }); }
COLI_INLINE f32x16 sub(f32x16 a, f32x16 b) { return each<f32x16>([=](int i) { return vsubq_f32(a.v[i], b.v[i]); }); }
COLI_INLINE f32x16 mul(f32x16 a, f32x16 b) { return each<f32x16>([=](int i) { return vmulq_f32(a.v[i], b.v[i]); }); }
COLI_INLINE f32x16 div(f32x16 a, f32x16 b) { return each<f32x16>([=](int i) { return vdivq_f32(a.v[i], b.v[i]); }); }
COLI_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return each<f32x16>([=](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); }); }
COLI_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return each<f32x16>([=](int i) { return vfmsq_f32(c.v[i], a.v[i], b.v[i]); }); }
COLI_INLINE f32x16 round_even(f32x16 a) { return each<f32x16>([=](int i) { return vrndnq_f32(a.v[i]); }); }
// Lane-wise a > b ? a : b, so a NaN in either gives b: callers that must keep NaN select explicitly.
// (vmaxq_f32 would give NaN.)
COLI_INLINE f32x16 max(f32x16 a, f32x16 b) { return each<f32x16>([=](int i) { return vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); }); }
COLI_INLINE f32x16 min(f32x16 a, f32x16 b) { return each<f32x16>([=](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); }); }
COLI_INLINE mask16 less(f32x16 a, f32x16 b) { return each<mask16>([=](int i) { return vcltq_f32(a.v[i], b.v[i]); }); }
COLI_INLINE mask16 is_nan(f32x16 a) { return each<mask16>([=](int i) { return vmvnq_u32(vceqq_f32(a.v[i], a.v[i])); }); }
COLI_INLINE f32x16 select(mask16 m, f32x16 a, f32x16 b) { return each<f32x16>([=](int i) { return vbslq_f32(m.v[i], a.v[i], b.v[i]); }); }

COLI_INLINE i32x16 iset1(int32_t a) { return each<i32x16>([=](int) { return vdupq_n_s32(a); }); }
COLI_INLINE i32x16 izero() { return iset1(0); }
COLI_INLINE i32x16 iload(const int32_t* p) { return each<i32x16>([=](int i) { return vld1q_s32(p + 4 * i); }); }
COLI_INLINE void istore(int32_t* p, i32x16 a) {
  for (int i = 0; i < 4; i++) vst1q_s32(p + 4 * i, a.v[i]);
}
COLI_INLINE i32x16 iadd(i32x16 a, i32x16 b) { return each<i32x16>([=](int i) { return vaddq_s32(a.v[i], b.v[i]); }); }
COLI_INLINE i32x16 imax(i32x16 a, i32x16 b) { return each<i32x16>([=](int i) { return vmaxq_s32(a.v[i], b.v[i]); }); }
COLI_INLINE i32x16 imin(i32x16 a, i32x16 b) { return each<i32x16>([=](int i) { return vminq_s32(a.v[i], b.v[i]); }); }
COLI_INLINE i32x16 iand(i32x16 a, i32x16 b) { return each<i32x16>([=](int i) { return vandq_s32(a.v[i], b.v[i]); }); }
template <int N> COLI_INLINE i32x16 shift_left(i32x16 a) { return each<i32x16>([=](int i) { return vshlq_n_s32(a.v[i], N); }); }
COLI_INLINE f32x16 to_float(i32x16 a) { return each<f32x16>([=](int i) { return vcvtq_f32_s32(a.v[i]); }); }
// Nearest, ties to even; out of range and NaN give INT32_MIN, as on every path (the instruction saturates).
COLI_INLINE i32x16 to_int(f32x16 a) {
  return each<i32x16>([=](int i) {
    uint32x4_t fits = vcltq_f32(a.v[i], vdupq_n_f32(2147483648.f));  // too small saturates to INT32_MIN
    return vbslq_s32(fits, vcvtnq_s32_f32(a.v[i]), vdupq_n_s32(INT32_MIN));
  });
}
COLI_INLINE f32x16 as_float(i32x16 a) { return each<f32x16>([=](int i) { return vreinterpretq_f32_s32(a.v[i]); }); }
COLI_INLINE i32x16 as_int(f32x16 a) { return each<i32x16>([=](int i) { return vreinterpretq_s32_f32(a.v[i]); }); }

COLI_INLINE f32x16 load_f16(const void* p) {
  uint16x8_t a = vld1q_u16((const uint16_t*)p), b = vld1q_u16((const uint16_t*)p + 8);
  return {{vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(a))), vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(a))),
           vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(b))), vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(b)))}};
}
COLI_INLINE f32x16 load_bf16(const void* p) {
  uint16x8_t a = vld1q_u16((const uint16_t*)p), b = vld1q_u16((const uint16_t*)p + 8);
  return {{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(a), 16)), vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(a), 16)),
           vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(b), 16)), vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(b), 16))}};
}

// The fixed tree: lane i + lane i+8, then +4, +2, +1. Every sum over 16 lanes in the project uses it.
COLI_INLINE float32x4_t reduce_to_4(f32x16 a) {
  return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
}
COLI_INLINE float reduce_add(f32x16 a) {
  float32x4_t q = reduce_to_4(a);
  float32x2_t h = vadd_f32(vget_low_f32(q), vget_high_f32(q));
  return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
// Sixteen of these sums at once, the same additions: lane 4i + j is the sum of a[4j + i].
COLI_INLINE f32x16 reduce_add_each(const f32x16* a) {
  auto pair = [=](int m, int n) {  // the two sums of two lanes of a[m], then of a[n]
    float32x4_t x = reduce_to_4(a[m]), y = reduce_to_4(a[n]);
    return vaddq_f32(vcombine_f32(vget_low_f32(x), vget_low_f32(y)), vcombine_f32(vget_high_f32(x), vget_high_f32(y)));
  };
  return each<f32x16>([=](int i) { return vpaddq_f32(pair(i, 4 + i), pair(8 + i, 12 + i)); });
}
COLI_INLINE int32_t reduce_max(i32x16 a) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(a.v[0], a.v[1]), vmaxq_s32(a.v[2], a.v[3])));
}
COLI_INLINE int32_t reduce_add(i32x16 a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[1]), vaddq_s32(a.v[2], a.v[3])));
}

COLI_INLINE void store_i8(int8_t* p, i32x16 a) {
  int16x8_t low = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
  int16x8_t high = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
// Into the second-level cache: the first has room for too few loads in flight to wait for memory.
COLI_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }
COLI_INLINE uint16_t to_half(float x) {
  return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(x))), 0);
}

}  // namespace coli::COLI_PATH
