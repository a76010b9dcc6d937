// Attention by online softmax over blocks of 64 key slots. A slot is a position, or an entry of the row's index list;
// blocks start at multiples of 64, so a row's bits depend on nothing but its own slots.
#include "ops.h"
#include "ops_tile.h"

namespace coli::COLI_PATH {
namespace {

constexpr int kBlock = 64;
constexpr int64_t pad16(int64_t n) { return (n + 15) / 16 * 16; }
constexpr float kInf = __builtin_inff();

struct Span { int64_t begin, end; };  // slots

// What a task keeps of its (row, head) pairs between blocks.
struct Pairs {
  float *q, *sum;         // rows of q_stride and sum_stride, padded with zeros
  float *highest, *mass;  // the largest score so far; the sum of exp(score - highest)
  int64_t q_stride, sum_stride;
};

// One block of slots of one kv head.
struct Unit {
  int64_t base, kv;
  const float* k[kBlock];
  const float* v[kBlock];
};

int64_t index_count(const Attend& a, int64_t row) {
  int64_t n = 0;
  while (n < a.listed && a.index[row * a.listed + n] >= 0) n++;
  return n;
}

Span span_of(const Attend& a, int64_t row) {
  if (a.index) return {0, index_count(a, row)};
  int64_t end = a.positions[row] + 1;
  return {end > a.window ? end - a.window : 0, end};
}

// Slots that hold no key repeat the last key: their scores are never used.
void set_unit(const Attend& a, int64_t row, int64_t slots, int64_t base, int64_t kv, Unit& u) {
  u.base = base;
  u.kv = kv;
  for (int64_t j = 0; j < kBlock; j++) {
    int64_t slot = base + j < slots ? base + j : slots - 1;
    int64_t key = a.index ? a.index[row * a.listed + slot] : slot;
    u.k[j] = a.k + key * a.k_stride + kv * a.k_head_stride;
    u.v[j] = a.v + key * a.v_stride + kv * a.v_head_stride;
  }
}

COLI_INLINE float max_lane(f32x16 x) {
  alignas(64) float t[16];
  store(t, x);
  float m = t[0];
  for (int i = 1; i < 16; i++) m = t[i] > m ? t[i] : m;
  return m;
}

COLI_INLINE void set_outside(float* s, int first, int last, float x) {
  for (int j = 0; j < first; j++) s[j] = x;
  for (int j = last; j < kBlock; j++) s[j] = x;
}

// Scores of one pair become weights exp(score - highest); returns what earlier sums must be multiplied by.
// An infinite score (overflow) becomes NaN: x + 0 * x.
float weigh_block(float* s, int first, int last, float scale, float& highest, float& mass) {
  f32x16 x[4], top = set1(-kInf);
  set_outside(s, first, last, 0.f);  // never computed
  for (int i = 0; i < 4; i++) {
    x[i] = mul(load(s + 16 * i), set1(scale));
    store(s + 16 * i, fma(x[i], zero(), x[i]));
  }
  set_outside(s, first, last, -kInf);
  for (int i = 0; i < 4; i++) {
    x[i] = load(s + 16 * i);
    top = max(x[i], top);
  }
  float block_top = max_lane(top);
  float now = block_top > highest ? block_top : highest;
  f32x16 total = zero();
  for (int i = 0; i < 4; i++) {
    x[i] = exp(sub(x[i], set1(now)));
    store(s + 16 * i, x[i]);
    total = add(total, x[i]);
  }
  alignas(64) float shrink[16];
  store(shrink, exp(set1(highest - now)));
  highest = now;
  mass = __builtin_fmaf(mass, shrink[0], reduce_add(total));
  return shrink[0];
}

// P pairs that see the same slots [first, last) of the block. Rows lie far apart, where the hardware does not foresee
// them: the scores fetch the values they will weigh, and these the keys of the next unit, so that memory always has work.
template <int P>
__attribute__((noinline)) void tile(const Attend& a, const Pairs& w, int64_t pair, const Unit& u, const Unit* next, int first, int last) {
  alignas(64) float s[P * kBlock];
  float shrink[P];
  for (int j = first / 16 * 16; j < last; j += 16 / P) {
    for (int n = j; next && n < j + 16 / P; n++) fetch({u.v, 0, a.dv}, n);
    dot_tile<P>(w.q + pair * w.q_stride, w.q_stride, u.k + j, a.dk, s + j, kBlock);
  }
  for (int p = 0; p < P; p++)
    shrink[p] = weigh_block(s + kBlock * p, first, last, a.scale, w.highest[pair + p], w.mass[pair + p]);
  weighted_tile<P>(s, shrink, u.v, first, last, a.dv, w.sum + pair * w.sum_stride, w.sum_stride,
                   next ? Ahead{next->k, 0, a.dk} : Ahead{});
}

// `next` is null where another tile of this unit fetches.
void tiles(const Attend& a, const Pairs& w, int64_t pair, int64_t end, const Unit& u, const Unit* next, int first, int last) {
  for (; pair < end; next = nullptr) {
    int64_t n = end - pair;
    if (n >= 8) tile<8>(a, w, pair, u, next, first, last), pair += 8;
    else if (n >= 4) tile<4>(a, w, pair, u, next, first, last), pair += 4;
    else if (n >= 2) tile<2>(a, w, pair, u, next, first, last), pair += 2;
    else tile<1>(a, w, pair, u, next, first, last), pair += 1;
  }
}

COLI_INLINE Span clip(Span s, int64_t base) {
  int64_t first = s.begin - base, last = s.end - base;
  return {first > 0 ? first : 0, last < kBlock ? last : kBlock};
}

// Neighbouring rows that see the same slots go together.
void unit_rows(const Attend& a, const AttendTask& t, const Span* spans, const Pairs& w, const Unit& u, const Unit& next) {
  int64_t rows = t.row1 - t.row0, heads = t.head1 - t.head0, pair0 = (u.kv - t.kv0) * rows * heads;
  for (int64_t r = 0, end; r < rows; r = end) {
    Span s = clip(spans[r], u.base);
    for (end = r + 1; end < rows; end++) {
      Span o = clip(spans[end], u.base);
      if (o.begin != s.begin || o.end != s.end) break;
    }
    if (s.begin < s.end) tiles(a, w, pair0 + r * heads, pair0 + end * heads, u, r ? nullptr : &next, (int)s.begin, (int)s.end);
  }
}

template <class F> void each_pair(const Attend& a, const AttendTask& t, F f) {
  int64_t pair = 0;
  for (int64_t kv = t.kv0; kv < t.kv1; kv++)
    for (int64_t r = t.row0; r < t.row1; r++)
      for (int64_t h = t.head0; h < t.head1; h++) f(pair++, (r * a.kv_heads + kv) * a.group + h);
}

Pairs make_pairs(const Attend& a, const AttendTask& t, float* scratch) {
  int64_t n = (t.kv1 - t.kv0) * (t.row1 - t.row0) * (t.head1 - t.head0);
  int64_t qs = pad16(a.dk), ss = pad16(a.dv);
  Pairs w{scratch, scratch + n * qs, scratch + n * (qs + ss), scratch + n * (qs + ss + 1), qs, ss};
  std::memset(scratch, 0, sizeof(float) * (size_t)(n * (qs + ss)));
  each_pair(a, t, [&](int64_t pair, int64_t at) {
    std::memcpy(w.q + pair * qs, a.q + at * a.dk, sizeof(float) * (size_t)a.dk);
    w.highest[pair] = -kInf;
    w.mass[pair] = 0.f;
  });
  return w;
}

void finish(const Attend& a, const AttendTask& t, const Pairs& w) {
  each_pair(a, t, [&](int64_t pair, int64_t at) {
    for (int64_t i = 0; i < a.dv; i++) a.out[at * a.dv + i] = w.sum[pair * w.sum_stride + i] / w.mass[pair];
  });
}

void attend(const Attend& a, const AttendTask& t, float* scratch) {
  Span spans[kAttendRows], all{INT64_MAX, 0};
  for (int64_t r = t.row0; r < t.row1; r++) {
    Span s = spans[r - t.row0] = span_of(a, r);
    all.begin = s.begin < all.begin ? s.begin : all.begin;
    all.end = s.end > all.end ? s.end : all.end;
  }
  Pairs w = make_pairs(a, t, scratch);
  Unit units[2];
  set_unit(a, t.row0, all.end, all.begin / kBlock * kBlock, t.kv0, units[0]);
  for (int at = 0; units[at].base < all.end; at ^= 1) {
    Unit &now = units[at], &next = units[at ^ 1];
    bool same_block = now.kv + 1 < t.kv1;
    set_unit(a, t.row0, all.end, same_block ? now.base : now.base + kBlock, same_block ? now.kv + 1 : t.kv0, next);
    unit_rows(a, t, spans, w, now, next);
  }
  finish(a, t, w);
}

}  // namespace

const AttendKernels attend_kernels = {attend};

}  // namespace coli::COLI_PATH
