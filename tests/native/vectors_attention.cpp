// Attention over grouped heads, one shared latent head, windows and index lists; the indexer.
#include "ops_run.h"
#include "vectors.h"

namespace vectors {
namespace {

using namespace coli;

struct Shape {
  const char* name;
  int64_t rows, keys, kv_heads, group, dk, dv, window, listed;
};
constexpr Shape kShapes[] = {
    {"one row", 1, 150, 2, 1, 32, 32, INT64_MAX, 0},  {"grouped", 11, 140, 2, 3, 20, 28, INT64_MAX, 0},
    {"latent", 6, 200, 1, 16, 72, 64, INT64_MAX, 0},  {"window", 9, 170, 1, 2, 16, 48, 70, 0},
    {"index", 5, 180, 1, 9, 40, 33, INT64_MAX, 75},   {"wide", 3, 66, 2, 2, 80, 300, INT64_MAX, 0},
};

// Rows of k keys each, ascending by chance steps, then -1.
std::vector<int32_t> index_lists(const Shape& s, const Ids& positions, Random& random) {
  std::vector<int32_t> index;
  for (int64_t r = 0; r < s.rows; r++) {
    int64_t key = 0;
    for (int64_t i = 0; i < s.listed; i++, key += 1 + random.below(4))
      index.push_back(key <= positions[(size_t)r] ? (int32_t)key : -1);
  }
  return index;
}

void attend_one(const Shape& s, float scale, Hash& hash) {
  Random random(41);
  int64_t heads = s.kv_heads * s.group, k_stride = s.kv_heads * s.dk + 5;
  Floats q = random.values(s.rows * heads * s.dk), k = random.values(s.keys * k_stride);
  Floats v = random.values(s.keys * s.kv_heads * s.dv), out((size_t)(s.rows * heads * s.dv));
  Ids positions;
  for (int64_t r = 0; r < s.rows; r++) positions.push_back(s.keys - s.rows + r);
  auto index = index_lists(s, positions, random);
  Attend a{};
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
  a.positions = positions.data(), a.index = s.listed ? index.data() : nullptr;
  a.k_stride = k_stride, a.k_head_stride = s.dk, a.v_stride = s.kv_heads * s.dv, a.v_head_stride = s.dv;
  a.keys = s.keys, a.kv_heads = s.kv_heads, a.group = s.group, a.dk = s.dk, a.dv = s.dv;
  a.listed = s.listed, a.window = s.window, a.scale = scale;
  attend(a, s.rows);
  hash.add(out);
}

void select_one(int64_t rows, int64_t keys, int64_t heads, int64_t dim, int64_t pool, Hash& hash) {
  constexpr int64_t kept = 20;
  Random random(42);
  Floats q = random.values(rows * heads * dim), w = random.values(rows * heads), k = random.values(keys * dim);
  for (int64_t i = 0; i < dim; i++) k[(size_t)(3 * dim + i)] = k[(size_t)(9 * dim + i)];  // a tie
  Ids positions;
  for (int64_t r = 0; r < rows; r++) positions.push_back(keys * pool - 1 - r * 13);
  std::vector<int32_t> out((size_t)(rows * (kept * pool + pool - 1)));
  Indexer a{q.data(), w.data(), k.data(), dim, dim, heads, dim, pool};
  hash.add(index_select(a, positions.data(), rows, kept, out.data()));
  hash.add(out);
}

void pool_one(int64_t pools, int64_t pool, int64_t dim, float scale, Hash& hash) {
  Random random(43);
  Floats rows = random.values(pools * pool * 2 * dim, scale), bias = random.values(pool * dim);
  Floats out((size_t)(pools * dim));
  pool_keys({rows.data(), bias.data(), out.data(), pool, dim}, pools);
  hash.add(out);
}

}  // namespace

void attention_vectors() {
  for (const Shape& s : kShapes) {
    Hash hash;
    for (float scale : {0.125f, 40.f, 3e38f}) attend_one(s, scale, hash);
    report(std::string("attend ") + s.name, hash);
  }
  Hash one, pooled, keys;
  select_one(4, 75, 9, 30, 1, one);
  select_one(2, 300, 3, 64, 1, one);
  report("index_select", one);
  select_one(6, 75, 9, 30, 4, pooled);
  report("index_select pools", pooled);
  pool_one(5, 4, 40, 1.f, keys);
  pool_one(2, 16, 128, 60.f, keys);
  pool_one(3, 1, 7, 3e38f, keys);
  report("pool_keys", keys);
}

}  // namespace vectors
