// The pool of threads behind every kernel. The caller waits for chunks, not for workers: a worker that is parked
// or descheduled delays nobody unless it holds a chunk already.
#pragma once
#include <cstdint>
#include <functional>

namespace coli {

void set_num_threads(int n);  // >= 1, the caller included
int num_threads();

// f(begin, end) over [0, n) in chunks of `chunk`; chunks run in any order on any thread, so f must write disjoint
// places. Returns when all are done. Calls from several threads queue.
void parallel_for(int64_t n, int64_t chunk, const std::function<void(int64_t, int64_t)>& f);

// There will be something to share out at once: workers that are parked wake up meanwhile. From any thread.
void wake_workers();

}  // namespace coli
