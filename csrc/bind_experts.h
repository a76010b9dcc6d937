// The routed experts of a layer as the kernels see them: where each lies, and whether it is at hand. Both change between
// calls, in arrays that Python keeps; all else is checked once.
#pragma once
#include <optional>
#include <vector>

#include "bind_arrays.h"
#include "pairs.h"

namespace coli {

struct ExpertTable {
  Format format;
  int64_t hidden, inner, up_first;
  In<uint64_t, 2> parts;
  In<float, 2> multipliers;
  In<bool, 1> at_hand;
  int planes;

  int64_t count() const { return (int64_t)parts.shape(0); }
};

// A call: rows x [tokens, hidden] and the experts ids [tokens, k] that each names.
struct Named {
  const int32_t* ids;
  const float* weights;
  int64_t tokens, k;
  const float* x;
  float limit;
};

// Tables of small calls are kept, so that decoding does not allocate; those of a long prompt are not.
class PairTables {
 public:
  explicit PairTables(int64_t pairs) {
    static thread_local Pairs kept;
    tables_ = pairs <= kKeptPairs ? &kept : &own_.emplace();
  }
  Pairs& operator*() const { return *tables_; }

 private:
  static constexpr int64_t kKeptPairs = 1 << 16;
  std::optional<Pairs> own_;
  Pairs* tables_;
};

// Without the GIL. some: of these experts only. by_pair: into a row of y a pair; else added to y [tokens, hidden].
void run_experts(const ExpertTable& table, const Named& call, Pairs& pairs, const std::vector<int64_t>* some,
                 bool by_pair, float* y);
// All of them: y is their sum; how many distinct ones there are.
int64_t run_all_experts(const ExpertTable& table, const Named& call, float* y);

}  // namespace coli
