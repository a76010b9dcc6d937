// Norms, softmax, elementwise functions, rope and routers.
#include "ops_run.h"
#include "vectors.h"

namespace vectors {
namespace {

using namespace coli;

constexpr float kInf = __builtin_inff();

// The whole range of exp in small steps, and every kind of value.
Floats awkward_values() {
  Floats x{0.f, -0.f, 0x1p-149f, -0x1p-140f, 88.7228f, 88.7229f, -87.3365f, -87.3366f, 3e38f, -3e38f, kInf, -kInf};
  x.push_back(__builtin_nanf(""));
  for (int i = -1700; i < 1700; i++) x.push_back((float)i * 0.0625f + (float)(i % 17) * 0x1p-12f);
  return x;
}

void norms() {
  for (int64_t n : {1, 16, 100}) {
    Random random(31);
    Floats x = random.values(5 * n), w = random.values(n), b = random.values(n), y((size_t)(5 * n));
    x[(size_t)n] = kInf;
    for (int64_t i = 0; i < n; i++) x[(size_t)(2 * n + i)] *= 3e38f, x[(size_t)(3 * n + i)] = 0.f;
    Hash hash;
    rms_norm(x.data(), w.data(), 1e-6f, y.data(), 5, n);
    hash.add(y);
    layer_norm(x.data(), w.data(), b.data(), 1e-5f, y.data(), 5, n);
    report("norms " + std::to_string(n), hash.add(y));
  }
}

void distributions() {
  for (int64_t n : {1, 33, 2500}) {
    Random random(32);
    Floats x = random.values(4 * n, 20.f), y((size_t)(4 * n));
    std::vector<double> sums(4);
    x[(size_t)(n - 1)] = -kInf;
    x[(size_t)(2 * n)] = __builtin_nanf("");
    if (n == 1) x[0] = 1.f;
    Hash hash;
    hash.add(softmax(x.data(), y.data(), 4, n)).add(y);
    hash.add(log_sum_exp(x.data(), sums.data(), 4, n)).add(sums);
    for (int64_t i = 0; i < n; i++) x[(size_t)(3 * n + i)] = -kInf;
    hash.add(softmax(x.data(), y.data(), 4, n));
    report("softmax " + std::to_string(n), hash);
  }
}

void elements() {
  Floats x = awkward_values(), y(x.size()), ones(x.size(), 1.f);
  auto n = (int64_t)x.size();
  sigmoid(x.data(), y.data(), n);
  report("sigmoid", Hash().add(y));
  silu_mul(x.data(), ones.data(), kNoLimit, y.data(), n);
  report("silu_mul", Hash().add(y));
  silu_mul(x.data(), x.data(), 2.5f, y.data(), n);
  report("silu_mul limited", Hash().add(y));
}

void rope() {
  Ids positions{0, 1, 77, 32767, 1 << 20};
  Floats frequencies{1.f, 0.31f, 0.1f, 3e-3f, 1e-4f};
  auto rows = (int64_t)positions.size(), half = (int64_t)frequencies.size();
  Floats cos((size_t)(rows * half)), sin(cos.size());
  Hash hash;
  hash.add(rope_table(positions.data(), frequencies.data(), 1.1f, cos.data(), sin.data(), rows, half));
  hash.add(cos).add(sin);
  for (bool interleaved : {false, true}) {
    Floats x = Random(33).values(rows * 3 * 14);
    apply_rope(Rope{x.data(), cos.data(), sin.data(), 3, 14, half, 2, interleaved}, rows);
    hash.add(x);
  }
  int64_t far = 1 << 25;
  report("rope", hash.add(rope_table(&far, frequencies.data(), 1.f, cos.data(), sin.data(), 1, half)));
}

void routers() {
  constexpr int64_t rows = 7, experts = 24;
  Random random(34);
  Floats logits = random.values(rows * experts, 4.f), bias = random.values(experts), weights(rows * 4);
  std::vector<int32_t> ids(rows * 4);
  for (int64_t i = 0; i < experts; i++) logits[(size_t)i] = (float)(i % 3);  // ties
  Hash hash;
  for (bool renormalize : {false, true}) {
    Router a{logits.data(), nullptr, ids.data(), weights.data(), experts, 4, 1, 1, renormalize, 1.f};
    hash.add(route(a, rows)).add(ids).add(weights);
    a = {logits.data(), bias.data(), ids.data(), weights.data(), experts, 4, 6, 3, renormalize, 2.5f};
    hash.add(route(a, rows)).add(ids).add(weights);
  }
  logits[5 * experts] = kInf;
  Router a{logits.data(), nullptr, ids.data(), weights.data(), experts, 4, 1, 1, false, 1.f};
  report("route", hash.add(route(a, rows)));
}

}  // namespace

void ops_vectors() {
  norms();
  distributions();
  elements();
  rope();
  routers();
}

}  // namespace vectors
