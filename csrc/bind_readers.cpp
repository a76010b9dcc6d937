// The readers of experts. The binding keeps the memory that is read into alive until its job has ended.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "bind.h"
#include "bind_arrays.h"
#include "readers.h"

namespace coli {
namespace {

using Memory = Out<uint8_t, 1>;
using Span = std::tuple<int, bool, int64_t, int64_t, int64_t, int64_t>;  // fd, direct, offset, nbytes, needed, place
using Job = std::tuple<int64_t, int64_t, Memory, std::vector<Span>>;     // tag, layer or -1, memory, spans
using Result = std::tuple<int64_t, int64_t, double, int>;                // tag, bytes, seconds, error

ReadSpan span_in(const Memory& memory, const Span& span) {
  auto [fd, direct, offset, nbytes, needed, place] = span;
  auto size = (int64_t)memory.shape(0);
  require(fd >= 0 && offset >= 0 && needed > 0 && needed <= nbytes, "a span has no file or no bytes");
  require(place >= 0 && place <= size && nbytes <= size - place, "a span is outside its memory");
  return {fd, direct, offset, nbytes, needed, memory.data() + place};
}

class PyReaders {
 public:
  PyReaders(int threads, int64_t piece_bytes, std::shared_ptr<Bell> bell) {
    require(threads > 0 && threads <= 1024, "readers must be 1..1024");
    require(piece_bytes > 0 && piece_bytes % 4096 == 0, "piece_bytes must be a multiple of 4096");
    readers_ = std::make_unique<Readers>(threads, piece_bytes, std::move(bell));
  }
  ~PyReaders() {
    nb::gil_scoped_release released;  // before the memory is let go: reads in progress end
    readers_.reset();
  }
  PyReaders(const PyReaders&) = delete;
  PyReaders& operator=(const PyReaders&) = delete;

  void submit(const std::vector<Job>& jobs) {
    std::vector<ReadJob> checked;
    for (const auto& [tag, layer, memory, spans] : jobs) {
      require(!spans.empty() && !memory_.count(tag), "a job needs spans and a tag of its own");
      ReadJob& job = checked.emplace_back(ReadJob{tag, layer, {}});
      for (const Span& span : spans) job.spans.push_back(span_in(memory, span));
    }
    for (const auto& job : jobs) memory_.emplace(std::get<0>(job), std::get<2>(job));
    readers_->submit(std::move(checked));
  }
  bool promote(int64_t tag) { return readers_->promote(tag); }
  std::vector<int64_t> withdraw(const std::vector<int64_t>& tags) {
    auto forgotten = readers_->withdraw(tags);
    for (int64_t tag : forgotten) memory_.erase(tag);
    return forgotten;
  }
  std::vector<Result> collect(double timeout) {
    auto finished = readers_->collect(0);
    if (finished.empty() && timeout > 0) {
      nb::gil_scoped_release released;
      finished = readers_->collect(timeout);
    }
    std::vector<Result> results;
    for (const ReadResult& r : finished) {
      memory_.erase(r.tag);
      results.emplace_back(r.tag, r.nbytes, r.seconds, r.error);
    }
    return results;
  }
  std::optional<std::vector<Result>> quiesce(double timeout) {
    {
      nb::gil_scoped_release released;
      if (!readers_->quiesce(timeout)) return std::nullopt;
    }
    auto results = collect(0);
    memory_.clear();
    return results;
  }
  void close() {
    {
      nb::gil_scoped_release released;
      readers_->close();
    }
    memory_.clear();
  }

 private:
  std::unordered_map<int64_t, Memory> memory_;  // by tag
  std::unique_ptr<Readers> readers_;
};

}  // namespace

void bind_readers(nb::module_& m) {
  nb::class_<Bell>(m, "Bell")
      .def(nb::init<>())
      .def("ring", &Bell::ring)
      .def("wait", &Bell::wait, nb::arg("timeout"), nb::call_guard<nb::gil_scoped_release>());
  nb::class_<PyReaders>(m, "Readers")
      .def(nb::init<int, int64_t, std::shared_ptr<Bell>>(), nb::arg("threads"), nb::arg("piece_bytes"),
           nb::arg("bell").none() = nb::none())
      .def("submit", &PyReaders::submit, nb::arg("jobs"))
      .def("promote", &PyReaders::promote, nb::arg("tag"))
      .def("withdraw", &PyReaders::withdraw, nb::arg("tags"))
      .def("collect", &PyReaders::collect, nb::arg("timeout"))
      .def("quiesce", &PyReaders::quiesce, nb::arg("timeout"))
      .def("close", &PyReaders::close);
  m.attr("FILE_ENDS") = kFileEnds;
}

}  // namespace coli
