#pragma once
#include <cstdint>

namespace coli {

// Reads all of data with the pool's threads and does next to nothing with it; the sum keeps the compiler honest.
uint64_t stream_read(const uint64_t* data, int64_t n);

}  // namespace coli
