#include "cpu.h"

#include <atomic>

namespace coli {

bool path_supported(Path p) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vnni");
  if (p == Path::avx2) return avx2;
  if (p == Path::avx512vnni) return avx512;
#endif
  return p == Path::scalar;
}

Path best_path() {
  if (path_supported(Path::avx512vnni)) return Path::avx512vnni;
  return path_supported(Path::avx2) ? Path::avx2 : Path::scalar;
}

static std::atomic<Path> g_path{best_path()};
Path active_path() { return g_path.load(std::memory_order_relaxed); }
void use_path(Path p) { g_path.store(p); }

const char* path_name(Path p) {
  return p == Path::scalar ? "scalar" : p == Path::avx2 ? "avx2" : "avx512vnni";
}

}  // namespace coli
