// Norms, rope, routers and attention: what one CPU path provides. Plain types only, so that the files compiled once
// a path may include it. Every pointer is to fp32 rows that are contiguous unless a stride is named (in floats).
#pragma once
#include <cstdint>

#include "cpu.h"

namespace coli {

struct RowKernels {  // on rows [begin, end) of [rows, n]
  void (*rms_norm)(const float* x, const float* w, float eps, float* y, int64_t n, int64_t begin, int64_t end);
  // x += y, then y = the norm of x.
  void (*add_rms_norm)(float* x, float* y, const float* w, float eps, int64_t n, int64_t begin, int64_t end);
  void (*layer_norm)(const float* x, const float* w, const float* b, float eps, float* y, int64_t n, int64_t begin,
                     int64_t end);
  int64_t (*softmax)(const float* x, float* y, int64_t n, int64_t begin, int64_t end);  // a row all -inf, or -1
  int64_t (*exp_sum)(const float* x, float* highest, double* sum, int64_t n, int64_t begin, int64_t end);  // the same
  // Elements: gate is held at most at the limit, up within +-limit.
  void (*silu_mul)(const float* gate, const float* up, float limit, float* y, int64_t begin, int64_t end);
  void (*sigmoid)(const float* x, float* y, int64_t begin, int64_t end);  // elements
};

struct Rope {
  float* x;          // [rows, heads, dim]
  const float* cos;  // [rows, half]
  const float* sin;
  int64_t heads, dim, half, offset;
  bool interleaved;
};
struct RopeKernels {
  void (*apply)(const Rope& a, int64_t begin, int64_t end);  // rows
};

struct Router {
  const float* logits;  // [rows, experts]
  const float* bias;    // [experts]; null for the softmax rule
  int32_t* ids;         // [rows, k]
  float* weights;       // [rows, k]
  int64_t experts, k, groups, keep_groups;
  bool renormalize;
  float scale;
};
struct RouteKernels {
  // scratch: 2 * (experts + groups) floats. Returns a row with a non-finite logit, or -1.
  int64_t (*softmax_topk)(const Router& a, float* scratch, int64_t begin, int64_t end);
  int64_t (*sigmoid_topk)(const Router& a, float* scratch, int64_t begin, int64_t end);
};

struct Attend {
  const float* q;  // [rows, kv_heads * group, dk]
  const float* k;  // [S, kv_heads, dk] with strides
  const float* v;  // [S, kv_heads, dv] with strides
  float* out;      // [rows, kv_heads * group, dv]
  const int64_t* positions;
  const int32_t* index;  // [rows, listed] or null
  int64_t k_stride, k_head_stride, v_stride, v_head_stride;
  int64_t keys, kv_heads, group, dk, dv, listed;
  int64_t window;  // keys > position - window
  float scale;
};
// Rows, kv heads and heads within the group of each kv head; at most kAttendRows rows, one where there is an index.
struct AttendTask {
  int64_t row0, row1, kv0, kv1, head0, head1;
};
constexpr int64_t kAttendRows = 64;
struct AttendKernels {
  // scratch: for each (row, kv head, head): dk and dv, each rounded up to 16, + 2 floats.
  void (*attend)(const Attend& a, const AttendTask& t, float* scratch);
};

struct Indexer {
  const float* q;  // [rows, heads, dim], a head padded with zeros to a multiple of 16
  const float* w;  // [rows, heads]
  const float* k;  // [S, dim] with a stride
  int64_t q_stride, k_stride, heads, dim;
  int64_t pool;  // positions that a key stands for
};
// A key for each `pool` rows: channel by channel, their keys weighted by the softmax of gate + bias.
struct KeyPool {
  const float* rows;  // [pools * pool, key and gate, dim]
  const float* bias;  // [pool, dim]
  float* out;         // [pools, dim]
  int64_t pool, dim;
};
struct IndexKernels {
  void (*scores)(const Indexer& a, int64_t row, float* scores, int64_t begin, int64_t end);  // keys
  void (*pool_keys)(const KeyPool& a, int64_t begin, int64_t end);                            // pools
};

// One table a file and path.
#define COLI_TABLES(path, x)                    \
  namespace path {                              \
  extern const RowKernels row_kernels;          \
  extern const RopeKernels rope_kernels;        \
  extern const RouteKernels route_kernels;      \
  extern const AttendKernels attend_kernels;    \
  extern const IndexKernels index_kernels;      \
  }
COLI_EACH_PATH(COLI_TABLES, )
#undef COLI_TABLES

}  // namespace coli
