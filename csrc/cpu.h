// Which instruction sets this CPU has, and which path the kernels take.
#pragma once
#include <string>

namespace coli {

enum class Path { scalar, avx2, avx512vnni };

bool path_supported(Path p);
Path best_path();
Path active_path();
void use_path(Path p);  // the caller has checked path_supported
const char* path_name(Path p);

}  // namespace coli
