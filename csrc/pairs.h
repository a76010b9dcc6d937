// The union of a batch's experts and its (row, expert) pairs, sorted by expert and then by row.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace coli {

struct Pairs {
  std::vector<uint64_t> parts, scales;     // [experts, 3]; scales of e4m3 only
  std::vector<float> multipliers;          // [experts, 3]
  std::vector<int64_t> start, row, place;  // [experts + 1], [pairs], [pairs]: where in topk_ids
  std::vector<float> weight;               // [pairs]

  int64_t experts() const { return (int64_t)start.size() - 1; }
  int64_t size() const { return start.back(); }

  // How many pairs each expert has. ids [tokens, k]; refuses what no router gives.
  const std::vector<int64_t>& count(const int32_t* ids, int64_t tokens, int64_t k, int64_t num_experts) {
    next_.assign(num_experts, 0), seen_.assign(num_experts, -1);
    for (int64_t i = 0; i < tokens * k; i++) {
      int32_t e = ids[i];
      if (e < 0 || e >= num_experts)
        throw std::invalid_argument("expert id " + std::to_string(e) + " outside 0.." + std::to_string(num_experts - 1));
      if (seen_[e] == i / k) throw std::invalid_argument("an expert is named twice in one row");
      seen_[e] = i / k;
      next_[e]++;
    }
    return next_;
  }

  // After count: the pairs of some experts, ascending, or of all. weights [tokens, k]; all_parts [num_experts, 3], or
  // [num_experts, 6] with the scales; all_multipliers [num_experts, 3].
  void build(const int32_t* ids, const float* weights, int64_t tokens, int64_t k, const uint64_t* all_parts,
             int64_t parts_each, const float* all_multipliers, const std::vector<int64_t>* some) {
    parts.clear(), scales.clear(), multipliers.clear(), start.assign(1, 0);
    auto num_experts = (int64_t)next_.size();
    if (some) keep_only(*some);
    for (int64_t e = 0; e < num_experts; e++) {
      if (!next_[e]) continue;
      int64_t begin = start.back();
      start.push_back(begin + next_[e]);
      next_[e] = begin;
      const uint64_t* mine = all_parts + parts_each * e;
      for (int64_t i = 0; i < parts_each; i++) {
        if (!mine[i]) throw std::invalid_argument("an expert with pairs has no address");
        (i < 3 ? parts : scales).push_back(mine[i]);
      }
      multipliers.insert(multipliers.end(), all_multipliers + 3 * e, all_multipliers + 3 * e + 3);
    }
    row.resize(size()), place.resize(size()), weight.resize(size());
    for (int64_t i = 0; i < tokens * k; i++) {
      if (seen_[ids[i]] < 0) continue;
      int64_t p = next_[ids[i]]++;
      row[p] = i / k, place[p] = i, weight[p] = weights[i];
    }
  }

 private:
  std::vector<int64_t> next_, seen_;  // by expert: pairs so far; row seen last, -1 if not to be built
  std::vector<int64_t> counts_;

  void keep_only(const std::vector<int64_t>& some) {
    counts_.swap(next_);
    next_.assign(counts_.size(), 0), seen_.assign(counts_.size(), -1);
    for (int64_t e : some) {
      if (e < 0 || e >= (int64_t)counts_.size() || !counts_[e])
        throw std::invalid_argument("an expert that no row names");
      next_[e] = counts_[e], seen_[e] = 0;
    }
  }
};

}  // namespace coli
