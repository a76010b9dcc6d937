// The indexer's choice of keys: how it is cut into tasks, and the selection itself. The cut decides speed only.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops_run.h"
#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t pad16(int64_t n) { return ceil_div(n, 16) * 16; }

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

// Heads of `stride` floats: each on whole cache lines, with zeros behind.
void pad_heads(const float* q, int64_t heads, int64_t dim, int64_t stride, float* out) {
  std::memset(out, 0, sizeof(float) * (size_t)(heads * stride));
  for (int64_t h = 0; h < heads; h++) std::memcpy(out + h * stride, q + h * dim, sizeof(float) * (size_t)dim);
}

int64_t keys_of(const Indexer& a, int64_t position) { return (position + 1) / a.pool; }

// Scores of rows [row0, row0 + n), each with room for `room` keys; rows that keep all their keys have none.
void score_rows(const Indexer& a, const int64_t* positions, int64_t row0, int64_t n, int64_t room, int64_t kept,
                float* scores) {
  constexpr int64_t kKeys = 256;  // a task
  const auto& kernels = COLI_PICK(index_kernels);
  int64_t parts = ceil_div(room, kKeys);
  parallel_for(n * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t row = i / parts, first = i % parts * kKeys, keys = keys_of(a, positions[row0 + row]);
      if (keys > kept && first < keys)
        kernels.scores(a, row0 + row, scores + row * room, first, std::min(keys, first + kKeys));
    }
  });
}

// n keys become the positions that they stand for.
void expand(int32_t* out, int64_t n, int64_t pool) {
  for (int64_t i = n; i-- > 0;) {
    auto first = (int32_t)(out[i] * pool);
    for (int64_t j = 0; j < pool; j++) out[i * pool + j] = first + (int32_t)j;
  }
}

// Positions from `first` on up to the row's own, then -1.
void list_rest(int32_t* out, int64_t width, int64_t first, int64_t position) {
  for (int64_t i = 0; i < width; i++) out[i] = first + i <= position ? (int32_t)(first + i) : -1;
}

// One row's choice; false where a score is not finite.
bool choose(const Indexer& a, const float* scores, int64_t position, int64_t kept, int32_t* out) {
  int64_t keys = keys_of(a, position), rest = a.pool - 1;
  if (keys <= kept) {
    list_rest(out, kept * a.pool + rest, 0, position);
    return true;
  }
  if (!all_finite(scores, keys)) return false;
  select_best(scores, keys, kept, out);
  expand(out, kept, a.pool);
  list_rest(out + kept * a.pool, rest, keys * a.pool, position);
  return true;
}

}  // namespace

int64_t index_select(Indexer a, const int64_t* positions, int64_t rows, int64_t kept, int32_t* out) {
  if (rows == 0) return -1;
  a.q_stride = pad16(a.dim);
  Scratch<3> padded(rows * a.heads * a.q_stride * (int64_t)sizeof(float));
  auto* q = (float*)(void*)padded.data();
  pad_heads(a.q, rows * a.heads, a.dim, a.q_stride, q);
  a.q = q;
  int64_t room = keys_of(a, *std::max_element(positions, positions + rows)), width = kept * a.pool + a.pool - 1;
  if (room <= kept) room = 0;  // every key is chosen: nothing to score
  int64_t at_once = std::clamp<int64_t>(kIndexScores / std::max<int64_t>(room, 1), 1, rows);
  std::vector<float> scores((size_t)(at_once * room));
  std::vector<uint8_t> refused((size_t)rows, 0);
  for (int64_t row0 = 0; row0 < rows; row0 += at_once) {
    int64_t n = std::min(at_once, rows - row0);
    score_rows(a, positions, row0, n, room, kept, scores.data());
    parallel_for(n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        refused[(size_t)(row0 + i)] =
            !choose(a, scores.data() + i * room, positions[row0 + i], kept, out + (row0 + i) * width);
    });
  }
  auto bad = std::find(refused.begin(), refused.end(), 1);
  return bad == refused.end() ? -1 : bad - refused.begin();
}

void pool_keys(const KeyPool& a, int64_t pools) {
  constexpr int64_t kGrain = 1 << 13;  // floats worth another thread
  const auto& k = COLI_PICK(index_kernels);
  int64_t chunk = std::max<int64_t>(1, kGrain / (a.pool * a.dim));
  parallel_for(pools, chunk, [&](int64_t begin, int64_t end) { k.pool_keys(a, begin, end); });
}

}  // namespace coli
