#pragma once
#include <nanobind/nanobind.h>

namespace coli {
void bind_matmul(nanobind::module_& m);  // quantise, pack, matmul, moe
void bind_ops(nanobind::module_& m);     // norms, rope, softmax, routers, attention
void bind_measure(nanobind::module_& m); // time in the module, streaming reads
void bind_readers(nanobind::module_& m); // threads that read experts
}  // namespace coli
