// 16 lanes in an array: the path of every machine that has no other, and the meaning of the others.
// std::fma is exact everywhere (in hardware or in software), so the bits are those of the vector paths.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace coli::COLI_PATH {

#define COLI_INLINE static inline __attribute__((always_inline))

constexpr int kRegisters = 1;  // nothing is held

struct f32x16 { float v[16]; };
struct i32x16 { int32_t v[16]; };
struct mask16 { bool v[16]; };

template <class R, class F> COLI_INLINE R each(F f) {
  R r;
  for (int i = 0; i < 16; i++) r.v[i] = f(i);
  return r;
}

COLI_INLINE f32x16 load(const float* p) { f32x16 r; std::memcpy(r.v, p, 64); return r; }
COLI_INLINE void store(float* p, f32x16 a) { std::memcpy(p, a.v, 64); }
COLI_INLINE f32x16 set1(float a) { return each<f32x16>([&](int) { return a; }); }
COLI_INLINE f32x16 held(f32x16 x) { return x; }
COLI_INLINE f32x16 zero() { return set1(0.f); }
// The first n (0..16) floats, zeros after: never reads past p + n.
COLI_INLINE f32x16 load_first(const float* p, int n) { f32x16 r = zero(); std::memcpy(r.v, p, sizeof(float) * (size_t)n); return r; }
COLI_INLINE void store_first(float* p, f32x16 a, int n) { std::memcpy(p, a.v, sizeof(float) * (size_t)n); }
COLI_INLINE f32x16 add(f32x16 a, f32x16 b) { return each<f32x16>([&](int i) { return a.v[i] + b.v[i]; }); }
COLI_INLINE f32x16 sub(f32x16 a, f32x16 b) { return each<f32x16>([&](int i) { return a.v[i] - b.v[i]; }); }
COLI_INLINE f32x16 mul(f32x16 a, f32x16 b) { return each<f32x16>([&](int i) { return a.v[i] * b.v[i]; }); }
COLI_INLINE f32x16 div(f32x16 a, f32x16 b) { return each<f32x16>([&](int i) { return a.v[i] / b.v[i]; }); }
COLI_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return each<f32x16>([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); }); }
COLI_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return each<f32x16>([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); }); }
COLI_INLINE f32x16 round_even(f32x16 a) { return each<f32x16>([&](int i) { return std::nearbyint(a.v[i]); }); }
// Lane-wise a > b ? a : b, so a NaN in either gives b: callers that must keep NaN select explicitly.
COLI_INLINE f32x16 max(f32x16 a, f32x16 b) { return each<f32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
COLI_INLINE f32x16 min(f32x16 a, f32x16 b) { return each<f32x16>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; }); }
COLI_INLINE mask16 less(f32x16 a, f32x16 b) { return each<mask16>([&](int i) { return a.v[i] < b.v[i]; }); }
COLI_INLINE mask16 is_nan(f32x16 a) { return each<mask16>([&](int i) { return a.v[i] != a.v[i]; }); }
COLI_INLINE f32x16 select(mask16 m, f32x16 a, f32x16 b) { return each<f32x16>([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; }); }

COLI_INLINE i32x16 iset1(int32_t a) { return each<i32x16>([&](int) { return a; }); }
COLI_INLINE i32x16 izero() { return iset1(0); }
COLI_INLINE i32x16 iload(const int32_t* p) { i32x16 r; std::memcpy(r.v, p, 64); return r; }
COLI_INLINE void istore(int32_t* p, i32x16 a) { std::memcpy(p, a.v, 64); }
COLI_INLINE i32x16 iadd(i32x16 a, i32x16 b) { return each<i32x16>([&](int i) { return (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i]); }); }
COLI_INLINE i32x16 imax(i32x16 a, i32x16 b) { return each<i32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
COLI_INLINE i32x16 imin(i32x16 a, i32x16 b) { return each<i32x16>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; }); }
COLI_INLINE i32x16 iand(i32x16 a, i32x16 b) { return each<i32x16>([&](int i) { return a.v[i] & b.v[i]; }); }
template <int N> COLI_INLINE i32x16 shift_left(i32x16 a) { return each<i32x16>([&](int i) { return (int32_t)((uint32_t)a.v[i] << N); }); }
COLI_INLINE f32x16 to_float(i32x16 a) { return each<f32x16>([&](int i) { return (float)a.v[i]; }); }
COLI_INLINE i32x16 to_int(f32x16 a) {
  return each<i32x16>([&](int i) { return a.v[i] >= -2147483648.f && a.v[i] < 2147483648.f ? (int32_t)std::nearbyint(a.v[i]) : INT32_MIN; });
}
COLI_INLINE f32x16 as_float(i32x16 a) { f32x16 r; std::memcpy(r.v, a.v, 64); return r; }
COLI_INLINE i32x16 as_int(f32x16 a) { i32x16 r; std::memcpy(r.v, a.v, 64); return r; }

COLI_INLINE float half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 31u, man = h & 0x3ffu, bits;
  if (exp == 31) bits = sign | 0x7f800000u | (man << 13) | (man ? 0x400000u : 0u);  // NaN made quiet, as the hardware does
  else if (exp) bits = sign | ((exp + 112u) << 23) | (man << 13);
  else {
    float f = (float)man * 0x1p-24f;
    return sign ? -f : f;
  }
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
COLI_INLINE f32x16 load_f16(const void* p) {
  uint16_t h[16];
  std::memcpy(h, p, 32);
  return each<f32x16>([&](int i) { return half_to_float(h[i]); });
}
COLI_INLINE f32x16 load_bf16(const void* p) {
  uint16_t h[16];
  std::memcpy(h, p, 32);
  return as_float(each<i32x16>([&](int i) { return (int32_t)((uint32_t)h[i] << 16); }));
}

// The fixed tree: lane i + lane i+8, then +4, +2, +1. Every sum over 16 lanes in the project uses it.
COLI_INLINE float reduce_add(f32x16 a) {
  for (int w = 8; w; w /= 2)
    for (int i = 0; i < w; i++) a.v[i] += a.v[i + w];
  return a.v[0];
}
// Sixteen of these sums at once, the same additions: lane 4i + j is the sum of a[4j + i].
COLI_INLINE f32x16 reduce_add_each(const f32x16* a) {
  return each<f32x16>([&](int l) { return reduce_add(a[4 * (l % 4) + l / 4]); });
}
COLI_INLINE int32_t reduce_max(i32x16 a) {
  int32_t m = a.v[0];
  for (int i = 1; i < 16; i++) m = a.v[i] > m ? a.v[i] : m;
  return m;
}
COLI_INLINE int32_t reduce_add(i32x16 a) {
  int32_t s = 0;
  for (int i = 0; i < 16; i++) s += a.v[i];
  return s;
}

COLI_INLINE void store_i8(int8_t* p, i32x16 a) {
  for (int i = 0; i < 16; i++) p[i] = (int8_t)a.v[i];
}
COLI_INLINE void prefetch(const void*) {}

// Round to nearest, ties to even. x is not NaN.
COLI_INLINE uint16_t to_half(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  uint32_t sign = bits >> 16 & 0x8000u, mag = bits & 0x7fffffffu;
  if (mag < 0x38800000u) {  // below 2^-14: multiples of 2^-24, which adding 0.5 rounds to
    float m;
    std::memcpy(&m, &mag, 4);
    m += 0.5f;
    std::memcpy(&mag, &m, 4);
    return (uint16_t)(sign | (mag - 0x3f000000u));
  }
  if (mag >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);  // 65520: infinite
  mag += 0xfffu + (mag >> 13 & 1u);
  return (uint16_t)(sign | (mag - 0x38000000u) >> 13);
}

}  // namespace coli::COLI_PATH
