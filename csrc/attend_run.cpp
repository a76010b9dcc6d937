// How attention is cut into tasks. The cut decides speed only: bits belong to a row and head.
#include <algorithm>

#include "ops_run.h"
#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

constexpr int64_t kPairs = 64;  // (row, head) pairs of a task: its state stays in the second-level cache with a block
constexpr int64_t kTile = 8;    // heads that share a key load

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t pad16(int64_t n) { return ceil_div(n, 16) * 16; }

struct Cut {  // a task's extent in rows, kv heads and heads of a group
  int64_t rows, kv_heads, heads;
};

// As many pairs a task as kPairs allows, so that a key is read for all of them; fewer where threads would idle. Heads
// that share their keys are parted only among the threads: each reads all keys once, at the time that the others do.
Cut cut(const Attend& a, int64_t rows, int64_t threads) {
  int64_t wanted = threads > 1 ? 2 * threads : 1;
  Cut c{1, 1, std::min(a.group, kPairs)};
  if (!a.index) c.rows = std::clamp<int64_t>(kPairs / c.heads, 1, std::min(rows, kAttendRows));
  int64_t tiles = ceil_div(rows, c.rows) * ceil_div(a.group, c.heads);
  int64_t kv_tasks = std::max(ceil_div(a.kv_heads * c.rows * c.heads, kPairs), ceil_div(wanted, tiles));
  c.kv_heads = ceil_div(a.kv_heads, std::min(a.kv_heads, kv_tasks));
  tiles *= ceil_div(a.kv_heads, c.kv_heads);
  if (tiles < threads && c.heads > kTile) {
    int64_t heads = ceil_div(c.heads, ceil_div(threads, tiles));
    c.heads = std::max(kTile, ceil_div(heads, kTile) * kTile);
  }
  return c;
}

}  // namespace

void attend(const Attend& a, int64_t rows) {
  if (rows == 0) return;
  const auto& k = COLI_PICK(attend_kernels);
  Cut c = cut(a, rows, num_threads());
  int64_t kv_parts = ceil_div(a.kv_heads, c.kv_heads), head_parts = ceil_div(a.group, c.heads);
  int64_t tasks = ceil_div(rows, c.rows) * kv_parts * head_parts;
  int64_t floats = c.rows * c.kv_heads * c.heads * (pad16(a.dk) + pad16(a.dv) + 2);
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    Scratch<3> scratch(floats * (int64_t)sizeof(float));
    for (int64_t i = begin; i < end; i++) {
      int64_t n = tasks - 1 - i;  // the last rows see most keys: they go first
      int64_t row = n / (kv_parts * head_parts) * c.rows, kv = n / head_parts % kv_parts * c.kv_heads;
      int64_t head = n % head_parts * c.heads;
      AttendTask t{row, std::min(rows, row + c.rows), kv, std::min(a.kv_heads, kv + c.kv_heads),
                   head, std::min(a.group, head + c.heads)};
      k.attend(a, t, (float*)(void*)scratch.data());
    }
  });
}

}  // namespace coli
