// The native module: each bind_*.cpp adds one group of functions. Every array argument is noconvert (a silent copy
// would be a bug), shapes are checked here, and the GIL is released while a kernel runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "cpu.h"
#include "pool.h"

namespace nb = nanobind;
using namespace coli;

NB_MODULE(_native, m) {
  // A model may live until the interpreter ends, its matrices with it: no leak worth a word to the user.
  nb::set_leak_warnings(false);
  m.def("supported_paths", [] {
    std::vector<std::string> names;
    for (Path p : kPaths)
      if (path_supported(p)) names.emplace_back(path_name(p));
    return names;
  }, "CPU paths that run here, slowest first.");
  m.def("active_path", [] { return std::string(path_name(active_path())); });
  m.def("use_path", [](const std::string& name) {
    for (Path p : kPaths)
      if (name == path_name(p) && path_supported(p)) return use_path(p);
    throw nb::value_error(("CPU path not available here: " + name).c_str());
  }, nb::arg("name"));
  m.def("set_num_threads", [](int n) {
    if (n < 1 || n > 1024) throw nb::value_error("threads must be 1..1024");
    nb::gil_scoped_release release;
    set_num_threads(n);
  }, nb::arg("n"));
  m.def("num_threads", &num_threads);
  bind_matmul(m);
  bind_ops(m);
  bind_measure(m);
  bind_readers(m);
}
