// The union of a batch's experts and its (row, expert) pairs, sorted by expert and then by row.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace coli {

struct Pairs {
  std::vector<uint64_t> parts;      // [experts of the union, 3]
  std::vector<float> multipliers;   // [experts of the union, 3]
  std::vector<int64_t> start, row;  // [experts of the union + 1], [pairs]
  std::vector<float> weight;        // [pairs]

  int64_t experts() const { return (int64_t)start.size() - 1; }
  int64_t size() const { return (int64_t)row.size(); }

  // ids, weights [tokens, k]; all_parts, all_multipliers [num_experts, 3].
  void build(const int32_t* ids, const float* weights, int64_t tokens, int64_t k, const uint64_t* all_parts,
             const float* all_multipliers, int64_t num_experts) {
    count(ids, tokens, k, num_experts);
    parts.clear(), multipliers.clear(), start.assign(1, 0);
    for (int64_t e = 0; e < num_experts; e++) {
      if (!next_[e]) continue;
      int64_t begin = start.back();
      start.push_back(begin + next_[e]);
      next_[e] = begin;
      for (int64_t i = 3 * e; i < 3 * e + 3; i++) {
        if (!all_parts[i]) throw std::invalid_argument("an expert with pairs has no address");
        parts.push_back(all_parts[i]), multipliers.push_back(all_multipliers[i]);
      }
    }
    row.resize(tokens * k), weight.resize(tokens * k);
    for (int64_t i = 0; i < tokens * k; i++) {
      int64_t p = next_[ids[i]]++;
      row[p] = i / k, weight[p] = weights[i];
    }
  }

 private:
  std::vector<int64_t> next_, seen_;  // by expert: pairs so far, row seen last

  void count(const int32_t* ids, int64_t tokens, int64_t k, int64_t num_experts) {
    next_.assign(num_experts, 0), seen_.assign(num_experts, -1);
    for (int64_t i = 0; i < tokens * k; i++) {
      int32_t e = ids[i];
      if (e < 0 || e >= num_experts) throw std::invalid_argument("expert id outside the layer's experts");
      if (seen_[e] == i / k) throw std::invalid_argument("an expert is named twice in one row");
      seen_[e] = i / k;
      next_[e]++;
    }
  }
};

}  // namespace coli
