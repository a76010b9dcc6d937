// Shared by the bindings of the ops: array types, and the two ways of refusing.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "released.h"

namespace coli {

template <class T> using Array = nanobind::ndarray<T, nanobind::c_contig, nanobind::device::cpu>;
template <class T> using Strided = nanobind::ndarray<T, nanobind::device::cpu>;

inline void require(bool ok, const std::string& message) {
  if (!ok) throw nanobind::value_error(message.c_str());
}
inline void refuse_row(int64_t row, const std::string& why) {
  require(row < 0, "row " + std::to_string(row) + ": " + why);
}
template <class A, class B> bool same_shape(const A& a, const B& b) {
  if (a.ndim() != b.ndim()) return false;
  for (size_t i = 0; i < a.ndim(); i++)
    if (a.shape(i) != b.shape(i)) return false;
  return true;
}
template <class A> bool has_shape(const A& a, std::initializer_list<int64_t> shape) {
  if (a.ndim() != shape.size()) return false;
  size_t i = 0;
  for (int64_t n : shape)
    if ((int64_t)a.shape(i++) != n) return false;
  return true;
}

void bind_attention(nanobind::module_& m);

}  // namespace coli
