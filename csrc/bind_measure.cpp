// What measuring needs of the module: time spent in it, and a pure stream of reads.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "bind.h"
#include "bind_arrays.h"
#include "released.h"
#include "stream.h"

namespace coli {

void bind_measure(nb::module_& m) {
  m.def("moment", [] {
    Moment now = moment();
    return std::tuple(now.wall_ns, now.native_ns);
  }, "Nanoseconds of a clock, and of this thread in kernels until now.");
  m.def("stream_read", [](const In<uint64_t, 1>& data) {
    Released released;
    return stream_read(data.data(), (int64_t)data.shape(0));
  }, nb::arg("data").noconvert());
}

}  // namespace coli
