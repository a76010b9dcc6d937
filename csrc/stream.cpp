#include "stream.h"

#include <atomic>

#include "pool.h"

namespace coli {
namespace {

constexpr int64_t kChunk = 1 << 19;  // 4 MB
constexpr int kLanes = 32;           // enough loads in flight whatever the register width

uint64_t sum(const uint64_t* p, int64_t n) {
  uint64_t lanes[kLanes] = {}, total = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; j++) lanes[j] += p[i + j];
  for (; i < n; i++) total += p[i];
  for (uint64_t lane : lanes) total += lane;
  return total;
}

}  // namespace

uint64_t stream_read(const uint64_t* data, int64_t n) {
  std::atomic<uint64_t> total{0};
  parallel_for(n, kChunk, [&](int64_t begin, int64_t end) { total += sum(data + begin, end - begin); });
  return total;
}

}  // namespace coli
