// Threads that read experts into memory. Demanded jobs go first, in the order given; then those ahead, nearest layer
// first, which leave a reader free for the next demand. All readers work on pieces of the first job, so that experts
// land one after another. What is unusual (an error, a file that ends) is reported, not handled.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace coli {

struct ReadSpan {
  int fd;
  bool direct;                     // past the page cache; else its pages are forgotten once read
  int64_t offset, nbytes, needed;  // of nbytes the first `needed` must exist
  uint8_t* address;
};

struct ReadJob {
  int64_t tag;
  int64_t layer;  // < 0: demanded
  std::vector<ReadSpan> spans;
};

constexpr int kFileEnds = -1;

struct ReadResult {
  int64_t tag, nbytes;
  double seconds;   // of reading, summed over the readers
  int error;        // 0, an errno, or kFileEnds
};

// Rung whenever a job has been read, so that one thread can wait for several readers.
class Bell {
 public:
  void ring();
  // Whether it has rung since this was last called; waits at most `timeout` seconds for it.
  bool wait(double timeout);

 private:
  std::mutex mutex_;
  std::condition_variable rings_;
  bool rung_ = false;
};

// For one thread at a time. A process forked off has no readers: there every method but the destructor throws.
class Readers {
 public:
  Readers(int threads, int64_t piece_bytes, std::shared_ptr<Bell> bell = nullptr);
  ~Readers();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  void submit(std::vector<ReadJob> jobs);
  // The job is demanded from now on. Whether it had not begun.
  bool promote(int64_t tag);
  // Forgets those of the jobs ahead that have not begun, and returns them.
  std::vector<int64_t> withdraw(const std::vector<int64_t>& tags);
  // Results since the last call; waits at most `timeout` seconds for the first.
  std::vector<ReadResult> collect(double timeout);
  // Forgets the jobs that have not begun; whether within `timeout` seconds the others were finished.
  bool quiesce(double timeout);
  // Ends the threads after the reads in progress. Other jobs are forgotten, and so are results.
  void close();

 private:
  struct State;
  State& state() const;
  std::unique_ptr<State> state_;
  int64_t owner_;  // process
};

}  // namespace coli
