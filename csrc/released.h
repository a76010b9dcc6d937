// The part of a binding that runs without the GIL, timed: what Python spent in kernels is then known exactly.
#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>

namespace coli {

inline thread_local int64_t t_native_ns = 0;  // this thread's, over all calls

// A time of the clock that CallTime reads, and what this thread had spent in kernels by then.
struct Moment {
  int64_t wall_ns, native_ns;
};

inline int64_t nanoseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

inline Moment moment() { return {nanoseconds(std::chrono::steady_clock::now().time_since_epoch()), t_native_ns}; }

class CallTime {
 public:
  ~CallTime() {
    t_native_ns += nanoseconds(std::chrono::steady_clock::now() - begin_);
  }
  // Where a call goes over from one thing to another.
  Moment moment() const {
    auto now = std::chrono::steady_clock::now();
    return {nanoseconds(now.time_since_epoch()), t_native_ns + nanoseconds(now - begin_)};
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
