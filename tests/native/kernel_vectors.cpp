// Every kernel over fixed inputs on every CPU path of this machine: a line "path kernel hash" each.
// Bits are a promise: the hashes are equal for all paths, compilers and machines, and stand in vectors.txt.
#include <cstdio>

#include "cpu.h"
#include "pool.h"
#include "vectors.h"

namespace vectors {

void report(const std::string& kernel, const Hash& hash) {
  std::printf("%s %s %016llx\n", coli::path_name(coli::active_path()), kernel.c_str(), (unsigned long long)hash.value());
}

}  // namespace vectors

int main() {
  coli::set_num_threads(2);
  for (coli::Path path : coli::kPaths) {
    if (!coli::path_supported(path)) continue;
    coli::use_path(path);
    vectors::matmul_vectors();
    vectors::moe_vectors();
    vectors::ops_vectors();
    vectors::attention_vectors();
    vectors::layer_vectors();
    vectors::delta_vectors();
    vectors::hyper_vectors();
  }
}
