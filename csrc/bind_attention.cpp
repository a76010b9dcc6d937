#include <nanobind/stl/optional.h>

#include <optional>

#include "bind_ops.h"
#include "ops_run.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace coli {
namespace {

using In = Array<const float>;
using Out = Array<float>;
constexpr int64_t kMostPooled = 1 << 16;
using Cache = Strided<const float>;  // rows of a cache: only the last dimension must be contiguous

void check_positions(const Array<const int64_t>& positions, int64_t rows, int64_t keys) {
  require(has_shape(positions, {rows}), "positions must have one element a row");
  for (int64_t t = 0; t < rows; t++)
    refuse_row(positions.data()[t] < 0 || positions.data()[t] >= keys ? t : -1, "the position is outside the keys");
}

// Each row: at least one entry, ascending, none beyond the row's position, then only -1.
void check_index(const int32_t* index, const int64_t* positions, int64_t rows, int64_t listed) {
  for (int64_t t = 0; t < rows; t++) {
    int64_t n = 0, last = -1;
    const int32_t* row = index + t * listed;
    for (; n < listed && row[n] > last; n++) last = row[n];
    bool ok = n > 0 && last <= positions[t];
    for (; n < listed; n++) ok &= row[n] == -1;
    refuse_row(ok ? -1 : t, "index must list ascending key positions up to the row's own, then -1");
  }
}

bool is_cache(const Cache& c) {
  return c.ndim() == 3 && c.stride(2) == 1 && c.stride(0) >= 0 && c.stride(1) >= 0;
}

void bind_attend(nb::module_& m) {
  m.def("attend", [](In q, Cache k, Cache v, Array<const int64_t> positions, float scale, int64_t window,
                     std::optional<Array<const int32_t>> index, Out out) {
    require(q.ndim() == 3 && out.ndim() == 3 && is_cache(k) && is_cache(v),
            "attend takes q [rows, heads, dk], k [keys, kv_heads, dk], v [keys, kv_heads, dv], each row contiguous");
    auto rows = (int64_t)q.shape(0), heads = (int64_t)q.shape(1), keys = (int64_t)k.shape(0);
    Attend a{q.data(), k.data(), v.data(), out.data(), positions.data(), nullptr, k.stride(0), k.stride(1), v.stride(0),
             v.stride(1), keys, (int64_t)k.shape(1), 0, (int64_t)q.shape(2), (int64_t)v.shape(2), 0, window, scale};
    require(a.kv_heads > 0 && heads > 0 && heads % a.kv_heads == 0, "the heads must divide into kv_heads groups");
    require(a.dk > 0 && a.dv > 0 && (int64_t)k.shape(2) == a.dk && (int64_t)v.shape(0) == keys &&
                (int64_t)v.shape(1) == a.kv_heads, "k must have q's head size, v must have k's keys and kv_heads");
    require(has_shape(out, {rows, heads, a.dv}), "out must be [rows, heads, dv]");
    require(window >= 1, "window must be at least 1");
    a.group = heads / a.kv_heads;
    check_positions(positions, rows, keys);
    if (index) {
      require(index->ndim() == 2 && (int64_t)index->shape(0) == rows, "index must be [rows, n]");
      a.index = index->data();
      a.listed = (int64_t)index->shape(1);
      check_index(a.index, a.positions, rows, a.listed);
    }
    Released released;
    attend(a, rows);
  }, nb::arg("q").noconvert(), nb::arg("k").noconvert(), nb::arg("v").noconvert(), nb::arg("positions").noconvert(),
     "scale"_a, "window"_a, nb::arg("index").noconvert().none(), nb::arg("out").noconvert());
}

void bind_index(nb::module_& m) {
  m.attr("INDEX_SCORES") = kIndexScores;
  m.def("index_scores_select", [](In iq, In w, Cache ik, Array<const int64_t> positions, int64_t pool, Array<int32_t> out) {
    require(iq.ndim() == 3 && iq.shape(1) > 0 && iq.shape(2) > 0 && ik.ndim() == 2 && ik.stride(1) == 1 && ik.stride(0) >= 0,
            "the indexer takes iq [rows, heads, dim] and ik [keys, dim], each row contiguous");
    auto rows = (int64_t)iq.shape(0);
    Indexer a{iq.data(), w.data(), ik.data(), 0, ik.stride(0), (int64_t)iq.shape(1), (int64_t)iq.shape(2), pool};
    require((int64_t)ik.shape(1) == a.dim && has_shape(w, {rows, a.heads}), "w must be [rows, heads], ik must have iq's dim");
    require(pool > 0 && pool <= kMostPooled, "a key must stand for 1 .. " + std::to_string(kMostPooled) + " positions");
    require(out.ndim() == 2 && (int64_t)out.shape(0) == rows, "out must be [rows, topk + pool - 1]");
    int64_t kept = ((int64_t)out.shape(1) + 1) / pool - 1;
    require(kept > 0 && (int64_t)out.shape(1) == kept * pool + pool - 1, "topk must be a multiple of pool above 0");
    check_positions(positions, rows, (int64_t)ik.shape(0) * pool + pool - 1);
    int64_t bad;
    {
      Released released;
      bad = index_select(a, positions.data(), rows, kept, out.data());
    }
    refuse_row(bad, "an indexer score is not finite");
  }, nb::arg("iq").noconvert(), nb::arg("w").noconvert(), nb::arg("ik").noconvert(), nb::arg("positions").noconvert(),
     "pool"_a, nb::arg("out").noconvert());
}

void bind_pool(nb::module_& m) {
  m.def("pool_keys", [](In rows, In bias, Out out) {
    require(rows.ndim() == 3 && rows.shape(1) == 2 && bias.ndim() == 2 && bias.size() > 0,
            "pool_keys takes rows [pools * pool, 2, dim] and bias [pool, dim]");
    auto pool = (int64_t)bias.shape(0), dim = (int64_t)bias.shape(1), pools = (int64_t)rows.shape(0) / pool;
    require((int64_t)rows.shape(2) == dim && (int64_t)rows.shape(0) == pools * pool,
            "the rows must have bias's dim, and divide into pools");
    require(has_shape(out, {pools, dim}), "out must be [pools, dim]");
    Released released;
    pool_keys({rows.data(), bias.data(), out.data(), pool, dim}, pools);
  }, nb::arg("rows").noconvert(), nb::arg("bias").noconvert(), nb::arg("out").noconvert());
}

}  // namespace

void bind_attention(nb::module_& m) {
  bind_attend(m);
  bind_index(m);
  bind_pool(m);
}

}  // namespace coli
