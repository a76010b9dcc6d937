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
                           {"f32", 0, coli::Dtype::f32},  {"f16", 0, coli::Dtype::f16},  {"bf16", 0, coli::Dtype::bf16},
                           {"e4m3", 0, coli::Dtype::e4m3}, {"e4m3 bf16", 0, coli::Dtype::e4m3_bf16},
                           {"e4m3 ue8m0", 0, coli::Dtype::e4m3_ue8m0}};

// The bytes of a type, at an odd address: tensors in files are not aligned. e4m3 gets scales that are no powers of two
// (ue8m0 can only have such).
class Stored {
 public:
  Stored(const Floats& x, int64_t rows, int64_t cols, coli::Dtype dtype);
  const uint8_t* data() const { return bytes_.data() + 1; }
  const uint8_t* scales() const { return scales_.data() + 1; }
  coli::DenseWeights weights() const { return {data(), dtype_, rows_, cols_, {scales(), 0}}; }

 private:
  coli::Dtype dtype_;
  int64_t rows_, cols_;
  std::vector<uint8_t> bytes_, scales_;
};

// int3: narrowed from int4.
std::vector<uint8_t> packed(const Floats& w, int64_t rows, int64_t cols, int bits, float multiplier = 1.f);
std::vector<uint8_t> narrowed(const std::vector<uint8_t>& blocks, int64_t rows, int64_t cols, int bits);

}  // namespace vectors
