// What measuring needs of the module: time spent in it, and a pure stream of reads.
#include "bind.h"
#include "bind_arrays.h"
#include "released.h"
#include "stream.h"

namespace coli {

void bind_measure(nb::module_& m) {
  m.def("native_nanoseconds", [] { return t_native_ns; });
  m.def("stream_read", [](const In<uint64_t, 1>& data) {
    Released released;
    return stream_read(data.data(), (int64_t)data.shape(0));
  }, nb::arg("data").noconvert());
}

}  // namespace coli
