// The weights of a line in two 256-bit registers a half, for the paths that have no wider ones.
#pragma once

namespace coli::COLI_PATH {

// Inputs 0..3 and 4..7 of a line, of rows 0..7 (a) and 8..15 (b).
struct Halves { __m256i low_a, low_b, high_a, high_b; };

COLI_INLINE __m256i line_at(const uint8_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
COLI_INLINE __m256i shifted(__m256i v, int right) {
  return right < 0 ? _mm256_slli_epi16(v, -right) : _mm256_srli_epi16(v, right);
}
COLI_INLINE __m256i three(const uint8_t* group, const ThreeBits& t) {
  __m256i low = _mm256_and_si256(shifted(line_at(group + t.low_line), t.low), _mm256_set1_epi8(12));
  __m256i high = _mm256_and_si256(shifted(line_at(group + t.high_line), t.high), _mm256_set1_epi8(16));
  return _mm256_or_si256(low, high);
}
template <int Bits> COLI_INLINE Halves halves(const uint8_t* group, int line) {
  if constexpr (Bits == 3) {
    ThreeBits s = three_bits(line, 0), t = three_bits(line, 1);
    return {three(group, s), three(group + 32, s), three(group, t), three(group + 32, t)};
  }
  __m256i m = _mm256_set1_epi8(15);
  __m256i u = line_at(group + 64 * line), v = line_at(group + 64 * line + 32);
  return {_mm256_and_si256(u, m), _mm256_and_si256(v, m), _mm256_and_si256(_mm256_srli_epi16(u, 4), m),
          _mm256_and_si256(_mm256_srli_epi16(v, 4), m)};
}

}  // namespace coli::COLI_PATH
