// Inputs and hashes of the kernel vectors: the same on every machine, compiler and C library.
#pragma once
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace vectors {

using Floats = std::vector<float>;
using Ids = std::vector<int64_t>;
constexpr float kNoLimit = std::numeric_limits<float>::infinity();

class Random {  // splitmix64
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return (int64_t)(next() % (uint64_t)n); }
  // Four uniform numbers added: bell-shaped within -2 .. 2, every step exact.
  float value() {
    int64_t sum = 0;
    for (int i = 0; i < 4; i++) sum += below(1 << 21) - (1 << 20);
    return (float)sum * 0x1p-21f;
  }
  Floats values(int64_t n, float scale = 1.f) {
    Floats x((size_t)n);
    for (float& v : x) v = value() * scale;
    return x;
  }

 private:
  uint64_t state_;
};

// FNV-1a over 32-bit words. The sign and payload of a NaN are the processor's affair.
class Hash {
 public:
  Hash& word(uint32_t w) {
    for (int b = 0; b < 4; b++) h_ = (h_ ^ (w >> 8 * b & 255)) * 0x100000001b3u;
    return *this;
  }
  Hash& add(float x) {
    uint32_t w;
    std::memcpy(&w, &x, 4);
    return word(x == x ? w : 0x7fc00000u);
  }
  Hash& add(double x) {
    uint64_t w;
    std::memcpy(&w, &x, 8);
    if (x != x) w = 0x7ff8000000000000u;
    return word((uint32_t)w).word((uint32_t)(w >> 32));
  }
  Hash& add(int64_t x) { return word((uint32_t)x).word((uint32_t)((uint64_t)x >> 32)); }
  Hash& add(int32_t x) { return word((uint32_t)x); }
  Hash& add(uint8_t x) { return word(x); }
  template <class T> Hash& add(const std::vector<T>& xs) {
    for (T x : xs) add(x);
    return *this;
  }
  uint64_t value() const { return h_; }

 private:
  uint64_t h_ = 0xcbf29ce484222325u;
};

void report(const std::string& kernel, const Hash& hash);

void matmul_vectors();
void moe_vectors();
void ops_vectors();
void attention_vectors();
void layer_vectors();
void delta_vectors();
void hyper_vectors();

}  // namespace vectors
