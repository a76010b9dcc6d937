// Packing, embedding rows and products.
#include "weights.h"

namespace vectors {
namespace {

using namespace coli;

constexpr float kInf = __builtin_inff();

std::string shape(const Form& form, int64_t rows, int64_t cols) {
  return std::string(form.name) + " " + std::to_string(rows) + "x" + std::to_string(cols);
}

// Each code in turn, between scales of every size; then NaN codes and scales that are none.
void decoding() {
  for (const Form& form : kForms) {
    if (!is_e4m3(form.format)) continue;
    constexpr int64_t rows = 130, cols = 300;
    auto size = (size_t)scale_bytes(form.format);
    std::vector<uint8_t> codes, scales;
    for (int64_t i = 0; i < rows * cols; i++) codes.push_back((uint8_t)((i * 5 + i / cols) % 256 & 0xbf));
    for (float s : {1.f, 0x1.8p-130f, 0x1p111f, 0.f, -0.3f, 0x1.cp-3f}) {
      uint32_t w;
      std::memcpy(&w, &s, 4);
      if (size < 4) w >>= size == 2 ? 16 : 23;
      for (size_t b = 0; b < size; b++) scales.push_back((uint8_t)(w >> 8 * b));
    }
    Floats out(rows * cols);
    Weights w{codes.data(), form.format, rows, cols, {scales.data(), 0}};
    Hash hash;
    hash.add(decode(w, out.data())).add(out);
    w.rows = 90, w.scales.first = 40;
    hash.add(decode(w, out.data())).add(out);
    codes[70 * cols + 299] = 0xff, codes[80 * cols + 2] = 0x7f;
    std::memset(scales.data() + 5 * size, size == 1 ? 0xff : 0x7f, size);
    hash.add(decode(w, nullptr)).add(decode(w, out.data())).add(out);
    report("decode " + std::string(form.name), hash);
  }
}

// Groups of zeros, of tiny and of huge values, and ties between the extremes.
Floats awkward_weights(Random& random, int64_t rows, int64_t cols) {
  Floats w = random.values(rows * cols);
  for (int64_t i = 0; i < rows * cols; i++) {
    int64_t kind = i / 64 % 7;
    if (kind == 1) w[(size_t)i] = 0.f;
    if (kind == 2) w[(size_t)i] *= 0x1p-20f;
    if (kind == 3) w[(size_t)i] *= 0x1p-140f;
    if (kind == 4) w[(size_t)i] *= 0x1p18f;
    if (kind == 5) w[(size_t)i] = i % 2 ? 1.5f : -1.5f;
  }
  return w;
}

void pack_one(const Floats& w, Format source, Format format, float multiplier, int64_t rows, int64_t cols, Hash& hash) {
  std::vector<uint8_t> out((size_t)part_bytes(format, 0, rows, cols, 0), 0xee);
  Stored stored(w, rows, cols, source);
  ScaleRange range = pack(stored.weights(), format, multiplier, out.data());
  hash.add(range.bad);
  if (range.bad < 0) hash.add(range.smallest).add(range.largest).add(out);
}

void packing() {
  for (auto [rows, cols] : {std::pair{21, 150}, {16, 448}})
    for (const Form& form : kForms) {
      if (form.format > Format::bf16) continue;
      Random random(11);
      Floats w = awkward_weights(random, rows, cols);
      Hash hash;
      for (Format format : {Format::int4, Format::int8})
        for (float multiplier : {1.f, 0x1p-12f, 0x1p9f}) pack_one(w, form.format, format, multiplier, rows, cols, hash);
      w[(size_t)(rows * cols - 3)] = kInf;
      pack_one(w, form.format, Format::int4, 1.f, rows, cols, hash);
      report("pack " + shape(form, rows, cols), hash);
    }
}

void narrowing() {
  for (auto [rows, cols] : {std::pair{21, 150}, {16, 448}})
    for (Format format : {Format::int4, Format::int8}) {
      Random random(15);
      auto blocks = packed(awkward_weights(random, rows, cols), rows, cols, format, 0x1p-12f);
      report("narrow int" + std::to_string(packed_bits(format)) + " " + std::to_string(rows) + "x" + std::to_string(cols),
             Hash().add(narrowed(blocks, rows, cols, format)));
    }
}

// The result of a product: head h of the weights' rows times head h of each token.
Floats product(const Form& form, const Floats& w, int64_t rows, int64_t cols, const Floats& x, int64_t tokens,
               int64_t heads, int planes) {
  Floats y((size_t)(tokens * rows));
  if (is_packed(form.format)) {
    auto data = packed(w, rows, cols, form.format);
    Product product{{data.data(), form.format, rows, cols, {}, 0.75f}, y.data()};
    matmul({&product, 1}, x.data(), tokens, heads, planes);
  } else {
    Stored stored(w, rows, cols, form.format);
    Product product{stored.weights(), y.data()};
    matmul({&product, 1}, x.data(), tokens, heads, planes);
  }
  return y;
}

void products() {
  for (const Form& form : kForms)
    for (auto [rows, cols] : {std::pair{37, 200}, {96, 64}}) {
      Random random(12);
      Floats w = random.values(rows * cols), x = random.values(19 * cols);
      Hash hash;
      for (int tokens : {1, 2, 3, 4, 7, 8, 19})
        for (int planes : {1, 2}) hash.add(product(form, w, rows, cols, x, tokens, 1, planes));
      if (rows % 48 == 0) hash.add(product(form, w, rows, cols, x, 5, 3, 2));
      report("matmul " + shape(form, rows, cols), hash);
    }
}

// The largest sums there are: they must not overflow or saturate.
void extremes() {
  for (const Form& form : kForms) {
    Hash hash;
    for (float sign : {1.f, -1.f}) {
      Floats w(32 * 256), x(4 * 256);
      for (size_t i = 0; i < w.size(); i++) w[i] = i % 64 == 0 ? -8.f : 7.f;
      for (size_t i = 0; i < x.size(); i++) x[i] = sign * (i / 256 % 2 && i % 2 ? -127.f : 127.f);
      hash.add(product(form, w, 32, 256, x, 4, 1, 2));
    }
    report("matmul extremes " + std::string(form.name), hash);
  }
}

void not_finite() {
  for (const Form& form : kForms) {
    Random random(13);
    Floats w = random.values(16 * 128), x = random.values(6 * 128);
    x[3] = __builtin_nanf("");
    x[128 + 70] = kInf;
    x[2 * 128] = 3e38f;
    for (int i = 0; i < 64; i++) x[3 * 128 + i] = (float)(i % 5) * 0x1p-140f, x[4 * 128 + i] *= 0x1p-98f;
    for (int i = 0; i < 128; i++) x[5 * 128 + i] = 0.f;
    Hash hash;
    hash.add(product(form, w, 16, 128, x, 6, 1, 2)).add(product(form, w, 16, 128, x, 6, 1, 1));
    report("matmul non-finite " + std::string(form.name), hash);
  }
}

void embedding() {
  for (const Form& form : kForms) {
    Random random(14);
    constexpr int64_t rows = 21, cols = 150;
    Floats w = awkward_weights(random, rows, cols), y(5 * cols);
    Ids ids{20, 0, 7, 7, 16};
    if (is_packed(form.format)) {
      auto data = packed(w, rows, cols, form.format);
      embed({data.data(), form.format, rows, cols, {}, 2.f}, ids.data(), 5, y.data());
    } else {
      Stored stored(w, rows, cols, form.format);
      embed(stored.weights(), ids.data(), 5, y.data());
    }
    report("embed " + shape(form, rows, cols), Hash().add(y));
  }
}

}  // namespace

void matmul_vectors() {
  decoding();
  packing();
  narrowing();
  products();
  extremes();
  not_finite();
  embedding();
}

}  // namespace vectors
