// The mixture of experts: both ways of storing results, every form of weights, ragged batches.
#include "weights.h"

namespace vectors {
namespace {

using namespace coli;

constexpr int64_t kTokens = 9, kExperts = 4, kHidden = 80, kInner = 100;

struct Experts {
  std::vector<std::vector<uint8_t>> records;
  std::vector<Stored> matrices;
  std::vector<uint64_t> parts, scales;  // [experts, 3]
  Floats multipliers;           // [experts, 3]
};

int64_t inner_rows() { return ceil_div(kInner, kRows) * kRows; }

// gate and up blocks by turns, then down.
std::vector<uint8_t> record(const Floats* w, Format format) {
  auto gate = packed(w[0], kInner, kHidden, format), up = packed(w[1], kInner, kHidden, format);
  auto down = packed(w[2], kHidden, kInner, format);
  std::vector<uint8_t> out;
  int64_t size = block_bytes(format, kHidden);
  for (int64_t i = 0; i < inner_rows() / kRows; i++)
    for (auto* part : {&gate, &up}) out.insert(out.end(), part->begin() + i * size, part->begin() + (i + 1) * size);
  out.insert(out.end(), down.begin(), down.end());
  return out;
}

Experts make_experts(const Form& form, Random& random) {
  Experts e;
  e.records.reserve(kExperts);
  e.matrices.reserve(3 * kExperts);
  for (int i = 0; i < kExperts; i++) {
    Floats w[3];
    for (Floats& part : w) part = random.values(kInner * kHidden, 0.125f);
    if (is_packed(form.format)) {
      auto& r = e.records.emplace_back(record(w, form.format));
      auto at = (uint64_t)r.data();
      auto down = at + (uint64_t)(2 * inner_rows() / kRows * block_bytes(form.format, kHidden));
      e.parts.insert(e.parts.end(), {at, at, down});
    } else {
      for (int part = 0; part < 3; part++) {
        auto& m = e.matrices.emplace_back(w[part], part < 2 ? kInner : kHidden, part < 2 ? kHidden : kInner, form.format);
        e.parts.push_back((uint64_t)m.data()), e.scales.push_back((uint64_t)m.scales());
      }
    }
    e.multipliers.insert(e.multipliers.end(), {1.f, 0.5f, 2.f});
  }
  return e;
}

struct Pairs {  // expert 2 has none, expert 3 most
  Ids start{0, 3, 5, 5, 14}, row{0, 4, 8, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8}, out;
  Floats weight;
};

Floats run(const Form& form, const Experts& e, const Pairs& p, const Floats& x, int planes, bool accumulate,
           float limit = kNoLimit) {
  int64_t rows = accumulate ? kTokens : (int64_t)p.row.size();
  Floats y((size_t)(rows * kHidden), 0.25f);
  MoeArgs a{};
  a.format = form.format;
  a.hidden = kHidden, a.inner = kInner, a.limit = limit;
  a.parts = e.parts.data(), a.scales = e.scales.data(), a.multipliers = e.multipliers.data();
  a.pair_start = p.start.data(), a.pair_row = p.row.data(), a.pair_weight = p.weight.data();
  a.pair_out = accumulate ? nullptr : p.out.data();
  a.y = y.data(), a.x = x.data();
  moe(a, kTokens, kExperts, (int64_t)p.row.size(), planes);
  return y;
}

void experts_of(const Form& form) {
  Random random(21);
  Experts e = make_experts(form, random);
  Floats x = random.values(kTokens * kHidden, 2.f);
  Pairs p;
  for (size_t i = 0; i < p.row.size(); i++) {
    p.weight.push_back(random.value());
    p.out.push_back((int64_t)((i * 5) % p.row.size()));
  }
  Hash hash;
  for (int planes : {1, 2})
    for (bool accumulate : {true, false}) hash.add(run(form, e, p, x, planes, accumulate));
  report("moe " + std::string(form.name), hash);
  report("moe limited " + std::string(form.name), Hash().add(run(form, e, p, x, 2, true, 0.5f)));
}

}  // namespace

void moe_vectors() {
  for (const Form& form : kForms) experts_of(form);
  Random random(22);
  Floats pairs = random.values(6 * 70), weights = random.values(9), y = random.values(3 * 70);
  Ids order{5, 0, -1, 2, -1, 1, 3, 4, 5};
  combine(pairs.data(), order.data(), weights.data(), 3, 3, 70, y.data());
  report("combine", Hash().add(y));
}

}  // namespace vectors
