// How attention and the indexer are cut into tasks. The cut decides speed only: bits belong to a row and head.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops_run.h"
#include "pool.h"

namespace coli {
namespace {

constexpr int64_t kPairs = 64;  // (row, head) pairs of a task: its state stays in the second-level cache with a block
constexpr int64_t kTile = 8;    // heads that share a key load

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t pad16(int64_t n) { return ceil_div(n, 16) * 16; }

struct Cut {  // a task's extent in rows, kv heads and heads of a group
  int64_t rows, kv_heads, heads;
};

// As many pairs a task as kPairs allows, so that a key is read for all of them; fewer where threads would idle.
Cut cut(const Attend& a, int64_t rows, int64_t wanted) {
  Cut c{1, 1, std::min(a.group, kPairs)};
  if (!a.index) c.rows = std::clamp<int64_t>(kPairs / c.heads, 1, std::min(rows, kAttendRows));
  int64_t tiles = ceil_div(rows, c.rows) * ceil_div(a.group, c.heads);
  int64_t kv_tasks = std::max(ceil_div(a.kv_heads * c.rows * c.heads, kPairs), ceil_div(wanted, tiles));
  c.kv_heads = ceil_div(a.kv_heads, std::min(a.kv_heads, kv_tasks));
  tiles *= ceil_div(a.kv_heads, c.kv_heads);
  if (tiles < wanted && c.heads > kTile) {
    int64_t heads = ceil_div(c.heads, ceil_div(wanted, tiles));
    c.heads = std::max(kTile, ceil_div(heads, kTile) * kTile);
  }
  return c;
}

// Kept by its thread from call to call: no allocation in a decode step.
float* scratch(size_t floats) {
  thread_local std::vector<float> buffer;
  if (buffer.size() < floats) buffer.resize(floats);
  return buffer.data();
}

// Order-preserving: a larger score has a larger key; +0 and -0 are equal.
uint32_t sort_key(float x) {
  auto bits = std::bit_cast<uint32_t>(x + 0.f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

struct Threshold {
  uint32_t key;       // the k-th best
  int64_t at_key;     // how many keys equal to it belong to the best
};

// The k-th best of n keys, 11 bits at a time from the top.
Threshold kth_best(const float* score, int64_t n, int64_t k) {
  uint32_t prefix = 0, known = 0;
  for (int shift : {21, 10, 0}) {
    int bits = shift ? 11 : 10;
    int64_t count[2048] = {};
    for (int64_t i = 0; i < n; i++) {
      uint32_t key = sort_key(score[i]);
      if ((key & known) == prefix) count[(key >> shift) & ((1u << bits) - 1)]++;
    }
    uint32_t digit = (1u << bits) - 1;
    while (count[digit] < k) k -= count[digit--];
    prefix |= digit << shift;
    known |= ((1u << bits) - 1) << shift;
  }
  return {prefix, k};
}

void select_best(const float* score, int64_t n, int64_t k, int32_t* out) {
  Threshold t = kth_best(score, n, k);
  for (int64_t i = 0, o = 0; i < n && o < k; i++) {
    uint32_t key = sort_key(score[i]);
    if (key > t.key || (key == t.key && t.at_key-- > 0)) out[o++] = (int32_t)i;
  }
}

bool all_finite(const float* x, int64_t n) {
  bool ok = true;
  for (int64_t i = 0; i < n; i++) ok &= std::isfinite(x[i]);
  return ok;
}

std::vector<float> padded_heads(const float* q, int64_t heads, int64_t dim) {
  std::vector<float> p((size_t)(heads * pad16(dim)), 0.f);
  for (int64_t h = 0; h < heads; h++) std::memcpy(&p[(size_t)(h * pad16(dim))], q + h * dim, sizeof(float) * (size_t)dim);
  return p;
}

}  // namespace

void attend(const Attend& a, int64_t rows) {
  if (rows == 0) return;
  const auto& k = COLI_PICK(attend_kernels);
  int threads = num_threads();
  Cut c = cut(a, rows, threads > 1 ? 2 * threads : 1);
  int64_t kv_parts = ceil_div(a.kv_heads, c.kv_heads), head_parts = ceil_div(a.group, c.heads);
  int64_t tasks = ceil_div(rows, c.rows) * kv_parts * head_parts;
  size_t floats = (size_t)(c.rows * c.kv_heads * c.heads * (pad16(a.dk) + pad16(a.dv) + 2));
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t n = tasks - 1 - i;  // the last rows see most keys: they go first
      int64_t row = n / (kv_parts * head_parts) * c.rows, kv = n / head_parts % kv_parts * c.kv_heads;
      int64_t head = n % head_parts * c.heads;
      AttendTask t{row, std::min(rows, row + c.rows), kv, std::min(a.kv_heads, kv + c.kv_heads),
                   head, std::min(a.group, head + c.heads)};
      k.attend(a, t, scratch(floats));
    }
  });
}

// Scores of rows [row0, row0 + n), each with room for `room` keys; rows that keep all their keys have none.
static void score_rows(const Indexer& a, const int64_t* positions, int64_t row0, int64_t n, int64_t room, int64_t topk,
                       float* scores) {
  constexpr int64_t kKeys = 256;  // a task
  const auto& kernels = COLI_PICK(index_kernels);
  int64_t parts = ceil_div(room, kKeys);
  parallel_for(n * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t row = i / parts, first = i % parts * kKeys, keys = positions[row0 + row] + 1;
      if (keys > topk && first < keys)
        kernels.scores(a, row0 + row, scores + row * room, first, std::min(keys, first + kKeys));
    }
  });
}

// One row's choice; false where a score is not finite.
static bool choose(const float* scores, int64_t keys, int64_t topk, int32_t* out) {
  for (int64_t j = 0; j < topk; j++) out[j] = j < keys ? (int32_t)j : -1;
  if (keys <= topk) return true;
  if (!all_finite(scores, keys)) return false;
  select_best(scores, keys, topk, out);
  return true;
}

int64_t index_select(Indexer a, const int64_t* positions, int64_t rows, int64_t topk, int32_t* out) {
  constexpr int64_t kBuffer = 1 << 22;  // scores kept at a time
  if (rows == 0) return -1;
  std::vector<float> q;
  a.q_stride = pad16(a.dim);
  if (a.q_stride != a.dim) {
    q = padded_heads(a.q, rows * a.heads, a.dim);
    a.q = q.data();
  }
  int64_t room = 1 + *std::max_element(positions, positions + rows);
  if (room <= topk) room = 0;  // every key is chosen: nothing to score
  int64_t at_once = std::clamp<int64_t>(kBuffer / std::max<int64_t>(room, 1), 1, rows);
  std::vector<float> scores((size_t)(at_once * room));
  std::vector<uint8_t> refused((size_t)rows, 0);
  for (int64_t row0 = 0; row0 < rows; row0 += at_once) {
    int64_t n = std::min(at_once, rows - row0);
    score_rows(a, positions, row0, n, room, topk, scores.data());
    parallel_for(n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        refused[(size_t)(row0 + i)] =
            !choose(scores.data() + i * room, positions[row0 + i] + 1, topk, out + (row0 + i) * topk);
    });
  }
  auto bad = std::find(refused.begin(), refused.end(), 1);
  return bad == refused.end() ? -1 : bad - refused.begin();
}

}  // namespace coli
