// Working memory of one call. Each calling thread keeps small buffers, so that decoding does not allocate; what a
// long prefill needed goes back at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace coli {

template <int Slot> class Scratch {  // one at a time a slot and thread
 public:
  explicit Scratch(int64_t bytes) {
    Buffer& b = buffer();
    if ((size_t)bytes <= b.size) return;
    b.grow((size_t)bytes);
  }
  ~Scratch() {
    if (buffer().size > kKeep) buffer().grow(0);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  uint8_t* data() const { return buffer().data; }

 private:
  static constexpr size_t kKeep = 4 << 20;
  struct Buffer {
    uint8_t* data = nullptr;
    size_t size = 0;
    ~Buffer() { std::free(data); }
    void grow(size_t bytes) {
      std::free(data);
      size = 0;
      data = nullptr;
      if (!bytes) return;
      size_t rounded = (bytes + 4095) / 4096 * 4096;
      data = (uint8_t*)std::aligned_alloc(64, rounded);
      if (!data) throw std::bad_alloc();
      size = rounded;
    }
  };
  static Buffer& buffer() {
    static thread_local Buffer b;
    return b;
  }
};

}  // namespace coli
