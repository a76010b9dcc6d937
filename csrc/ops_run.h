// The kernels of ops.h over the pool of threads. Functions that can refuse a row return the lowest such row, or -1.
#pragma once
#include <cstdint>

#include "ops.h"

namespace coli {

void rms_norm(const float* x, const float* w, float eps, float* y, int64_t rows, int64_t n);
void add_rms_norm(float* x, float* y, const float* w, float eps, int64_t rows, int64_t n);
void layer_norm(const float* x, const float* w, const float* b, float eps, float* y, int64_t rows, int64_t n);
void silu_mul(const float* gate, const float* up, float limit, float* y, int64_t n);
void sigmoid(const float* x, float* y, int64_t n);
int64_t softmax(const float* x, float* y, int64_t rows, int64_t n);
int64_t log_sum_exp(const float* x, double* y, int64_t rows, int64_t n);

// cos and sin of float(position) * inv_freq (rounded to fp32), each times scale: [rows, half]. Refuses a row with an
// angle beyond 2^24.
int64_t rope_table(const int64_t* positions, const float* inv_freq, float scale, float* cos, float* sin, int64_t rows,
                   int64_t half);
void apply_rope(const Rope& a, int64_t rows);

int64_t route(const Router& a, int64_t rows);

void attend(const Attend& a, int64_t rows);
// Scores that index_select keeps at a time; more only if one row has more. The plan counts them.
inline constexpr int64_t kIndexScores = 1 << 20;
// The positions of the `kept` best keys of each row, ascending, then -1: of the keys all of whose positions are up to
// the row's own; those behind the last such key follow. out [rows, kept * pool + pool - 1]. Refuses a row with a
// non-finite score.
int64_t index_select(Indexer a, const int64_t* positions, int64_t rows, int64_t kept, int32_t* out);
void pool_keys(const KeyPool& a, int64_t pools);

}  // namespace coli
