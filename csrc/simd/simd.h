// The vector vocabulary of one CPU path. Each file of the kernels is compiled once a path, with COLI_PATH naming
// the namespace (cpu.h) and the compiler's flags set to match.
// Nothing from the standard library that is inline and non-trivial may be used in those files: the linker
// could keep the AVX-512 copy for everyone.
#pragma once
#if defined(__AVX512F__)
#include "avx512.h"
#elif defined(__AVX2__)
#include "avx2.h"
#elif defined(__ARM_FEATURE_DOTPROD)
#include "neon.h"
#else
#include "scalar.h"
#endif

namespace coli::COLI_PATH {

// exp(x), error < 0.9 ulp; 0 below -87.33654 (where the result would be denormal), inf above 88.72283, NaN stays
// NaN. Cody-Waite reduction and a polynomial of degree 7 in fixed order: the same bits on every path.
COLI_INLINE f32x16 exp(f32x16 x) {
  f32x16 n = round_even(mul(x, set1(1.44269504f)));
  f32x16 r = fnma(n, set1(0.693359375f), x);
  r = fnma(n, set1(-2.12194440e-4f), r);
  f32x16 p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = fma(p, r, set1(1.f));
  p = fma(p, r, set1(1.f));
  // 2^n in two halves, so that n = 128 does not overflow the exponent field before the product does.
  i32x16 k = to_int(n);
  k = imin(imax(k, iset1(-254)), iset1(254));
  f32x16 kf = round_even(mul(to_float(k), set1(0.5f)));
  i32x16 h = to_int(kf), l = to_int(sub(to_float(k), kf));
  f32x16 y = mul(mul(p, as_float(shift_left<23>(iadd(h, iset1(127))))), as_float(shift_left<23>(iadd(l, iset1(127)))));
  y = select(less(x, set1(-87.3365402f)), zero(), y);
  y = select(less(set1(88.7228394f), x), as_float(iset1(0x7f800000)), y);
  return select(is_nan(x), x, y);
}

// x / (1 + exp(-x))
COLI_INLINE f32x16 silu(f32x16 x) {
  return div(x, add(set1(1.f), exp(sub(zero(), x))));
}

// silu(gate) * up, gate at most `limit` and up within +-limit; where that is infinite nothing changes. NaN stays.
COLI_INLINE f32x16 swiglu(f32x16 gate, f32x16 up, f32x16 limit) {
  return mul(silu(min(limit, gate)), max(sub(zero(), limit), min(limit, up)));
}

// 1 / (1 + exp(-x))
COLI_INLINE f32x16 sigmoid(f32x16 x) {
  return div(set1(1.f), add(set1(1.f), exp(sub(zero(), x))));
}

}  // namespace coli::COLI_PATH
