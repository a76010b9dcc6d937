// The kernels of each format, by its code.
#include "matmul_kernels.h"

namespace coli::COLI_PATH {

extern const FormatKernels f32_kernels, f16_kernels, bf16_kernels, e4m3_kernels, int3_kernels, int4_kernels, int8_kernels;

extern const FormatKernels* const format_kernels[kFormats];
const FormatKernels* const format_kernels[kFormats] = {
    &f32_kernels,  &f16_kernels,  &bf16_kernels,                // float
    &e4m3_kernels, &e4m3_kernels, &e4m3_kernels,                // e4m3 with scales of f32, bf16, ue8m0
    &int3_kernels, &int4_kernels, &int8_kernels,                // packed
};

}  // namespace coli::COLI_PATH
