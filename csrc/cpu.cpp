#include "cpu.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace coli {
namespace {

#if defined(__x86_64__)

struct Registers { unsigned a, b, c, d; };
Registers cpuid(unsigned leaf, unsigned part) {
  Registers r{};
  if (!__get_cpuid_count(leaf, part, &r.a, &r.b, &r.c, &r.d)) return {};
  return r;
}

// The built-in function also asks whether the system saves the registers; not every compiler knows each name.
bool supported(Path p) {
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (cpuid(1, 0).c >> 29 & 1);  // f16c
  if (p == Path::avx2) return avx2;
  if (p == Path::avxvnni) return avx2 && (cpuid(7, 1).a >> 4 & 1);
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

#elif defined(__aarch64__) && defined(__linux__)

// Bits of the kernel's interface: HWCAP_ASIMDDP, HWCAP2_I8MM. Old headers lack the names.
bool supported(Path p) {
  bool dotprod = getauxval(AT_HWCAP) >> 20 & 1;
  return dotprod && (p == Path::neon_dotprod || (getauxval(AT_HWCAP2) >> 13 & 1));
}

#else

bool supported(Path) { return false; }

#endif

}  // namespace

bool path_supported(Path p) { return p == Path::scalar || supported(p); }

Path best_path() {
  Path best = Path::scalar;
  for (Path p : kPaths)
    if (path_supported(p)) best = p;
  return best;
}

static std::atomic<Path> g_path{best_path()};
Path active_path() { return g_path.load(std::memory_order_relaxed); }
void use_path(Path p) { g_path.store(p); }

#define COLI_NAME(path, x) #path,
const char* path_name(Path p) {
  constexpr const char* names[] = {COLI_EACH_PATH(COLI_NAME, )};
  return names[(int)p];
}

}  // namespace coli
