// Weights of every stored form.
#pragma once
#include <vector>

#include "matmul.h"
#include "vectors.h"

namespace vectors {

struct Form {
  const char* name;
  int bits;  // of Scheme, or 0
  coli::Dtype dtype;
};
constexpr Form kForms[] = {{"int3", 3, coli::Dtype::f32}, {"int4", 4, coli::Dtype::f32}, {"int8", 8, coli::Dtype::f32},
                           {"f32", 0, coli::Dtype::f32},  {"f16", 0, coli::Dtype::f16},  {"bf16", 0, coli::Dtype::bf16}};

// The bytes of a type, at an odd address: tensors in files are not aligned.
class Stored {
 public:
  Stored(const Floats& x, coli::Dtype dtype);
  const uint8_t* data() const { return bytes_.data() + 1; }

 private:
  std::vector<uint8_t> bytes_;
};

// int3: narrowed from int4.
std::vector<uint8_t> packed(const Floats& w, int64_t rows, int64_t cols, int bits, float multiplier = 1.f);
std::vector<uint8_t> narrowed(const std::vector<uint8_t>& blocks, int64_t rows, int64_t cols, int bits);

}  // namespace vectors
