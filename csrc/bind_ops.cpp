#include "bind.h"
namespace coli { void bind_ops(nanobind::module_&) {} }
