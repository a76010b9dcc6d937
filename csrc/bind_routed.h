// Router and experts of a layer together: its second half, where all experts that are chosen are at hand.
#pragma once
#include "bind_experts.h"
#include "bind_layer.h"

namespace coli {

struct RoutedExperts {  // of objects that Python keeps alive
  const Projections& gate;
  const RouteRule& rule;
  const ExpertTable& table;
  float limit;
};

struct Ran {
  int64_t experts = 0;  // distinct ones; 0: one of them was missing, and none was run
  int64_t bad = -1;     // a row with a logit that is not finite
  Moment chosen{};
};
// Without the GIL: the choice for s; then, if all of it is at hand, the experts' sum into out [rows, hidden].
Ran run_routed(const Stream& s, Routing& routing, const RoutedExperts& routed, const CallTime& time, float* out);

}  // namespace coli
