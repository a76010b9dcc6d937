// Routers: which experts a row goes to, and with what weight. Best first, ties to the lower id.
#include "ops.h"

#include "simd/simd.h"

namespace coli::COLI_PATH {
namespace {

constexpr float kInf = __builtin_inff();

COLI_INLINE bool all_finite(const float* x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(x[i] > -kInf && x[i] < kInf)) return false;
  return true;
}

// The k best of n by insertion, in descending order; -inf is never chosen.
COLI_INLINE void best(const float* score, int64_t n, int64_t k, int32_t* ids) {
  int64_t have = 0;
  for (int64_t e = 0; e < n; e++) {
    if (score[e] == -kInf || (have == k && !(score[e] > score[ids[k - 1]]))) continue;
    int64_t at = have < k ? have++ : k - 1;
    for (; at > 0 && score[e] > score[ids[at - 1]]; at--) ids[at] = ids[at - 1];
    ids[at] = (int32_t)e;
  }
}

// The chosen weights, over their sum (in order of choice) + tiny where wanted, times scale.
COLI_INLINE void weigh(const Router& a, const float* p, const int32_t* ids, float* w, float tiny) {
  float s = 0.f;
  for (int64_t j = 0; j < a.k; j++) s += p[ids[j]];
  float d = s + tiny;
  for (int64_t j = 0; j < a.k; j++) {
    float x = p[ids[j]];
    w[j] = (a.renormalize ? x / d : x) * a.scale;
  }
}

int64_t softmax_topk(const Router& a, float* scratch, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    const float* x = a.logits + r * a.experts;
    if (!all_finite(x, a.experts)) return r;
    row_kernels.softmax(x, scratch, a.experts, 0, 1);
    best(scratch, a.experts, a.k, a.ids + r * a.k);
    weigh(a, scratch, a.ids + r * a.k, a.weights + r * a.k, 0.f);
  }
  return -1;
}

// The sum of the two best of a group (of the one, where a group is one expert).
COLI_INLINE float group_score(const float* c, int64_t n) {
  float first = -kInf, second = -kInf;
  for (int64_t i = 0; i < n; i++) {
    if (c[i] > first) {
      second = first;
      first = c[i];
    } else if (c[i] > second) {
      second = c[i];
    }
  }
  return n > 1 ? first + second : first;
}

// Experts outside the best groups get -inf. The marks live in `kept`.
COLI_INLINE void drop_groups(const Router& a, float* choice, float* score, float* kept) {
  int64_t size = a.experts / a.groups;
  for (int64_t g = 0; g < a.groups; g++) {
    score[g] = group_score(choice + g * size, size);
    kept[g] = 0.f;
  }
  for (int64_t n = 0; n < a.keep_groups; n++) {
    int64_t top = -1;
    for (int64_t g = 0; g < a.groups; g++)
      if (kept[g] == 0.f && (top < 0 || score[g] > score[top])) top = g;
    kept[top] = 1.f;
  }
  for (int64_t e = 0; e < a.experts; e++)
    if (kept[e / size] == 0.f) choice[e] = -kInf;
}

int64_t sigmoid_topk(const Router& a, float* scratch, int64_t begin, int64_t end) {
  float *p = scratch, *choice = p + a.experts, *group = choice + a.experts;
  for (int64_t r = begin; r < end; r++) {
    const float* x = a.logits + r * a.experts;
    if (!all_finite(x, a.experts)) return r;
    row_kernels.sigmoid(x, p, 0, a.experts);
    for (int64_t e = 0; e < a.experts; e++) choice[e] = p[e] + a.bias[e];
    if (a.keep_groups < a.groups) drop_groups(a, choice, group, group + a.groups);
    best(choice, a.experts, a.k, a.ids + r * a.k);
    weigh(a, p, a.ids + r * a.k, a.weights + r * a.k, 1e-20f);
  }
  return -1;
}

}  // namespace

const RouteKernels route_kernels = {softmax_topk, sigmoid_topk};

}  // namespace coli::COLI_PATH
