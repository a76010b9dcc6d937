// Sine and cosine of our own, in plain double arithmetic: the same bits on every machine and C library.
#include <cmath>
#include <cstdint>

#include "ops_run.h"
#include "pool.h"

namespace coli {
namespace {

constexpr double kLargest = 0x1p24;

// pi/2 in three parts. The first two have 28 bits or fewer, so that their product with a multiple below 2^25 is exact.
constexpr double kHalfPi1 = 0x1.921fb54p+0, kHalfPi2 = 0x1.10b461p-30, kHalfPi3 = 0x1.a62633145c06ep-58;

// Taylor series on |r| <= pi/4 (+ a little): the first term left out is below 3e-17.
double sin_series(double r) {
  double z = r * r, p = 0;
  for (int i = 17; i >= 3; i -= 2) p = (p + 1) * (-z / (i * (i - 1)));
  return r + r * p;
}
double cos_series(double r) {
  double z = r * r, p = 0;
  for (int i = 18; i >= 2; i -= 2) p = (p + 1) * (-z / (i * (i - 1)));
  return 1 + p;
}

void sin_cos(double x, double& s, double& c) {
  double n = std::nearbyint(x * 0.6366197723675814);
  double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  double a = sin_series(r), b = cos_series(r);
  auto quadrant = (int64_t)n & 3;
  s = quadrant & 1 ? b : a;
  c = quadrant & 1 ? a : b;
  if (quadrant == 2 || quadrant == 3) s = -s;
  if (quadrant == 1 || quadrant == 2) c = -c;
}

}  // namespace

int64_t rope_table(const int64_t* positions, const float* inv_freq, float scale, float* cos, float* sin, int64_t rows,
                   int64_t half) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < half; i++)
      if (!(std::fabs((float)positions[r] * inv_freq[i]) <= kLargest)) return r;
  parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      for (int64_t i = 0; i < half; i++) {
        double s, c;
        sin_cos((float)positions[r] * inv_freq[i], s, c);
        cos[r * half + i] = (float)c * scale;
        sin[r * half + i] = (float)s * scale;
      }
  });
  return -1;
}

}  // namespace coli
