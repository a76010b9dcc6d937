#include "delta_run.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "pool.h"
#include "scratch.h"

namespace coli {
namespace {

constexpr int64_t kConvColumns = 512;
constexpr int64_t kGrain = 1 << 14;  // elements worth another thread

void start_from_zero(const DeltaShape& s, DeltaPart& part) {
  if (part.before.matrix) return;
  std::fill_n(part.after.window, (s.taps - 1) * s.channels(), 0.f);  // perhaps null, for none
  std::memset(part.after.matrix, 0, sizeof(float) * (size_t)(s.heads * s.key_dim * s.value_dim));
  part.before = part.after;
}

struct Block {  // columns of one input
  const DeltaInput* input;
  int64_t column, width, channel;  // its first column in the input and among all channels
};

std::vector<Block> blocks_of(std::span<const DeltaInput> inputs) {
  std::vector<Block> blocks;
  int64_t channel = 0;
  for (const DeltaInput& in : inputs) {
    for (int64_t c = 0; c < in.width; c += kConvColumns)
      blocks.push_back({&in, c, std::min(kConvColumns, in.width - c), channel + c});
    channel += in.width;
  }
  return blocks;
}

// The input `back` rows before the part's row r: of its rows, or of the window.
const float* input_at(const DeltaShape& s, const DeltaPart& part, const Block& b, int64_t r, int64_t back) {
  int64_t at = r - back;
  return at >= 0 ? b.input->x + (part.row0 + at) * b.input->width + b.column
                 : part.before.window + (s.taps - 1 + at) * s.channels() + b.channel;
}

void convolve(const DeltaLayer& l, std::span<const Block> blocks, std::span<const DeltaPart> parts, float* qkv) {
  const auto& k = COLI_PICK(delta_kernels);
  const DeltaShape& s = l.shape;
  std::vector<const DeltaPart*> owner;
  for (const DeltaPart& part : parts) owner.insert(owner.end(), (size_t)(part.row1 - part.row0), &part);
  auto n = (int64_t)blocks.size();
  parallel_for((int64_t)owner.size() * n, std::max<int64_t>(1, kGrain / kConvColumns / 4), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const Block& b = blocks[(size_t)(i % n)];
      const DeltaPart& part = *owner[(size_t)(i / n)];
      ShortConv a{{}, l.conv + b.channel, s.taps, s.channels()};
      for (int64_t t = 0; t < s.taps; t++) a.tap[t] = input_at(s, part, b, i / n - part.row0, s.taps - 1 - t);
      k.conv_silu(a, qkv + i / n * s.channels() + b.channel, b.width);
    }
  });
}

// The last inputs become the window. Rows go from old to new: where both windows are one, none is overwritten unread.
void keep_window(const DeltaShape& s, std::span<const Block> blocks, std::span<const DeltaPart> parts) {
  auto n = (int64_t)blocks.size();
  parallel_for((int64_t)parts.size() * n, kGrain / kConvColumns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const Block& b = blocks[(size_t)(i % n)];
      const DeltaPart& part = parts[(size_t)(i / n)];
      for (int64_t t = 0; t < s.taps - 1; t++)
        std::memmove(part.after.window + t * s.channels() + b.channel,
                     input_at(s, part, b, part.row1 - part.row0, s.taps - 1 - t), sizeof(float) * (size_t)b.width);
    }
  });
}

void scan_all(const DeltaShape& s, const DeltaRows& rows, std::span<const DeltaPart> parts, float* out) {
  const auto& k = COLI_PICK(delta_kernels);
  int64_t columns = (s.value_dim + kDeltaColumns - 1) / kDeltaColumns, tasks = s.heads * columns;
  parallel_for((int64_t)parts.size() * tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const DeltaPart& part = parts[(size_t)(i / tasks)];
      int64_t r = part.row0, head = i % tasks / columns, column = i % columns * kDeltaColumns;
      DeltaScan a{s, rows.qkv + r * s.channels(), rows.decay + r * s.gates(), rows.write + r * s.heads,
                  part.before.matrix, part.after.matrix, out + r * s.values(), part.row1 - r};
      k.scan(a, head, column, std::min(kDeltaColumns, s.value_dim - column));
    }
  });
}

}  // namespace

void delta_mix(const DeltaLayer& l, const DeltaCall& call, std::span<DeltaPart> parts) {
  const auto& k = COLI_PICK(delta_kernels);
  const DeltaShape& s = l.shape;
  int64_t rows = parts.back().row1, chunk = std::max<int64_t>(1, kGrain / s.channels());
  Scratch<2> scratch(rows * (s.channels() + s.gates() + s.heads) * (int64_t)sizeof(float));
  auto* qkv = (float*)(void*)scratch.data();
  float *decay = qkv + rows * s.channels(), *write = decay + rows * s.gates();
  for (DeltaPart& part : parts) start_from_zero(s, part);
  auto blocks = blocks_of(call.inputs);
  convolve(l, blocks, parts, qkv);
  keep_window(s, blocks, parts);
  DeltaRows a{s, qkv, call.gate, call.beta, l.gain, l.bias, decay, write};
  parallel_for(rows, chunk, [&](int64_t b, int64_t e) { k.prepare(a, b, e); });
  scan_all(s, a, parts, call.out);
  parallel_for(rows, chunk, [&](int64_t b, int64_t e) { k.norm_gate(s, l.norm, call.z, call.out, b, e); });
}

void exp_of(const float* x, float* y, int64_t n) { COLI_PICK(delta_kernels).exp(x, y, n); }

}  // namespace coli
