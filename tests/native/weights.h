// Weights of every stored form.
#pragma once
#include <vector>

#include "matmul.h"
#include "vectors.h"

namespace vectors {

struct Form {
  const char* name;
  coli::Format format;
};
constexpr Form kForms[] = {{"int3", coli::Format::int3},           {"int4", coli::Format::int4},
                           {"int8", coli::Format::int8},           {"f32", coli::Format::f32},
                           {"f16", coli::Format::f16},             {"bf16", coli::Format::bf16},
                           {"e4m3", coli::Format::e4m3},           {"e4m3 bf16", coli::Format::e4m3_bf16},
                           {"e4m3 ue8m0", coli::Format::e4m3_ue8m0}};

// Row-major weights at an odd address: tensors in files are not aligned. e4m3 gets scales that are no powers of two
// (ue8m0 can only have such).
class Stored {
 public:
  Stored(const Floats& x, int64_t rows, int64_t cols, coli::Format format);
  const uint8_t* data() const { return bytes_.data() + 1; }
  const uint8_t* scales() const { return scales_.data() + 1; }
  coli::Weights weights() const { return {data(), format_, rows_, cols_, {scales(), 0}}; }

 private:
  coli::Format format_;
  int64_t rows_, cols_;
  std::vector<uint8_t> bytes_, scales_;
};

// int3: narrowed from int4.
std::vector<uint8_t> packed(const Floats& w, int64_t rows, int64_t cols, coli::Format format, float multiplier = 1.f);
std::vector<uint8_t> narrowed(const std::vector<uint8_t>& blocks, int64_t rows, int64_t cols, coli::Format format);

}  // namespace vectors
