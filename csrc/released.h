// The part of a binding that runs without the GIL, timed: what Python spent in kernels is then known exactly.
#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>

namespace coli {

inline thread_local int64_t t_native_ns = 0;  // this thread's, over all calls

class CallTime {
 public:
  ~CallTime() {
    auto spent = std::chrono::steady_clock::now() - begin_;
    t_native_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Members end in reverse order: the wait for the GIL is not counted.
struct Released {
  nanobind::gil_scoped_release release;
  CallTime time;
};

}  // namespace coli
