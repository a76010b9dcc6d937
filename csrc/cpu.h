// The CPU paths of this architecture, which of them this CPU has, and which one the kernels take.
#pragma once

namespace coli {

// Slowest first. A path is a namespace with the tables of matmul_kernels.h and ops.h, compiled by add_path of
// CMakeLists.txt with the instructions its name says. COLI_EACH_PATH(f, x) is f(path, x) for each.
#if defined(__x86_64__)
#define COLI_EACH_PATH(f, x) f(scalar, x) f(avx2, x) f(avxvnni, x) f(avx512vnni, x)
#elif defined(__aarch64__) && defined(__linux__)
#define COLI_EACH_PATH(f, x) f(scalar, x) f(neon_dotprod, x) f(neon_i8mm, x)
#else
#define COLI_EACH_PATH(f, x) f(scalar, x)
#endif

#define COLI_ENUMERATOR(path, x) path,
enum class Path { COLI_EACH_PATH(COLI_ENUMERATOR, ) };
#undef COLI_ENUMERATOR

#define COLI_VALUE(path, x) Path::path,
constexpr Path kPaths[] = {COLI_EACH_PATH(COLI_VALUE, )};
#undef COLI_VALUE

bool path_supported(Path p);
Path best_path();
Path active_path();
void use_path(Path p);  // the caller has checked path_supported
const char* path_name(Path p);

// The active path's table of that name.
#define COLI_CASE(path, table) \
  case ::coli::Path::path: return &::coli::path::table;
#define COLI_PICK(table)                                             \
  (*[]() -> decltype(&::coli::scalar::table) {                       \
    switch (::coli::active_path()) { COLI_EACH_PATH(COLI_CASE, table) } \
    return &::coli::scalar::table;                                   \
  }())

}  // namespace coli
