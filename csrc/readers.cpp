#include "readers.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "pool.h"

namespace coli {
namespace {

constexpr int64_t kPage = 4096;
using Clock = std::chrono::steady_clock;

struct Work {
  ReadJob job;
  size_t span = 0;    // the next piece begins here,
  int64_t at = 0;     // at this byte of it
  int in_flight = 0;  // pieces
  bool begun = false;
  int64_t nbytes = 0;
  double seconds = 0;
  int error = 0;

  bool has_pieces() const { return !error && span < job.spans.size(); }
};
using Shared = std::shared_ptr<Work>;

struct Piece {
  Shared work;
  ReadSpan span;
  bool ahead;
};

struct Outcome {
  int64_t nbytes;
  int error;
};

void forget_pages(const ReadSpan& s, int64_t offset, int64_t nbytes) {
#ifdef POSIX_FADV_DONTNEED
  if (!s.direct) posix_fadvise(s.fd, offset, nbytes, POSIX_FADV_DONTNEED);
#else
  (void)s, (void)offset, (void)nbytes;
#endif
}

Outcome read_span(const ReadSpan& s) {
  int64_t done = 0;
  while (done < s.needed) {
    if (s.direct && done % kPage) return {done, EINVAL};  // the rest does not begin at a page
    ssize_t got = pread(s.fd, s.address + done, (size_t)(s.nbytes - done), s.offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {done, errno};
    if (got == 0) return {done, kFileEnds};
    forget_pages(s, s.offset + done, got);
    done += got;
  }
  return {done, 0};
}

// Readers handle no signals: those are for the threads of Python.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

struct Readers::State {
  std::mutex mutex;  // guards all below; held for moments only
  std::condition_variable work, done;
  std::deque<Shared> demanded, ahead;  // those with pieces left
  std::vector<ReadResult> finished;
  int64_t unfinished = 0;  // jobs begun
  int busy_ahead = 0;      // readers
  int most_ahead;
  int64_t piece_bytes;
  std::shared_ptr<Bell> bell;  // may be none
  bool closed = false;
  std::vector<std::thread> threads;

  State(int count, int64_t bytes, std::shared_ptr<Bell> rung)
      : most_ahead(std::max(2, count - 1)), piece_bytes(bytes), bell(std::move(rung)) {
    SignalsBlocked blocked;
    try {
      for (int i = 0; i < count; i++) threads.emplace_back([this] { serve(); });
    } catch (...) {
      end();
      throw;
    }
  }

  void end() {
    {
      std::lock_guard lock(mutex);
      closed = true;
      demanded.clear(), ahead.clear();
    }
    work.notify_all();
    for (auto& thread : threads) thread.join();
    threads.clear();
  }

  void serve() {
#ifdef __linux__
    pthread_setname_np(pthread_self(), "expert-reader");
#endif
    std::unique_lock lock(mutex);
    for (;;) {
      std::deque<Shared>* queue = nullptr;
      work.wait(lock, [&] { return closed || (queue = next_queue()); });
      if (closed) return;
      Piece piece = take(*queue);
      lock.unlock();
      auto begin = Clock::now();
      Outcome outcome = read_span(piece.span);
      double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      lock.lock();
      put_back(piece, outcome, seconds);
    }
  }

  std::deque<Shared>* next_queue() {
    if (!demanded.empty()) return &demanded;
    return !ahead.empty() && busy_ahead < most_ahead ? &ahead : nullptr;
  }

  // The next piece of the queue's first job, which leaves the queue with its last.
  Piece take(std::deque<Shared>& queue) {
    Shared work = queue.front();
    const ReadSpan& whole = work->job.spans[work->span];
    ReadSpan part = whole;
    part.offset += work->at, part.address += work->at;
    part.nbytes = std::min(piece_bytes, whole.nbytes - work->at);
    part.needed = std::min(part.nbytes, whole.needed - work->at);
    work->at += part.nbytes;
    if (work->at >= whole.needed) work->span++, work->at = 0;
    if (!work->begun) work->begun = true, unfinished++;
    work->in_flight++;
    bool is_ahead = &queue == &ahead;
    busy_ahead += is_ahead;
    if (!work->has_pieces()) queue.pop_front();
    return {std::move(work), part, is_ahead};
  }

  void put_back(const Piece& piece, Outcome outcome, double seconds) {
    Work& w = *piece.work;
    busy_ahead -= piece.ahead;
    w.in_flight--;
    w.nbytes += outcome.nbytes, w.seconds += seconds;
    if (outcome.error && !w.error) {
      w.error = outcome.error;
      std::erase(demanded, piece.work), std::erase(ahead, piece.work);
    }
    if (w.in_flight || w.has_pieces()) return;
    finished.push_back({w.job.tag, w.nbytes, w.seconds, w.error});
    unfinished--;
    done.notify_one();
    if (bell) bell->ring();
    wake_workers();  // to multiply it
  }

  void add(ReadJob&& job) {
    auto work = std::make_shared<Work>();
    work->job = std::move(job);
    if (work->job.layer < 0) return demanded.push_back(std::move(work));
    auto later = [](int64_t layer, const Shared& other) { return layer < other->job.layer; };
    ahead.insert(std::upper_bound(ahead.begin(), ahead.end(), work->job.layer, later), work);
  }

  template <class Condition> bool wait_done(std::unique_lock<std::mutex>& lock, double timeout, Condition condition) {
    return done.wait_for(lock, std::chrono::duration<double>(timeout), condition);
  }
};

void Bell::ring() {
  {
    std::lock_guard lock(mutex_);
    rung_ = true;
  }
  rings_.notify_one();
}

bool Bell::wait(double timeout) {
  std::unique_lock lock(mutex_);
  rings_.wait_for(lock, std::chrono::duration<double>(timeout), [&] { return rung_; });
  return std::exchange(rung_, false);
}

Readers::Readers(int threads, int64_t piece_bytes, std::shared_ptr<Bell> bell)
    : state_(std::make_unique<State>(threads, piece_bytes, std::move(bell))), owner_(getpid()) {}

Readers::~Readers() {
  if (owner_ == getpid()) close();
  else (void)state_.release();  // its threads are the parent's, and somebody may have held the mutex
}

Readers::State& Readers::state() const {
  if (owner_ != getpid()) throw std::runtime_error("the readers of experts belong to the process that was forked");
  return *state_;
}

void Readers::submit(std::vector<ReadJob> jobs) {
  State& s = state();
  {
    std::lock_guard lock(s.mutex);
    if (s.closed) throw std::runtime_error("the readers of experts are closed");
    for (auto& job : jobs) s.add(std::move(job));
  }
  s.work.notify_all();
}

bool Readers::promote(int64_t tag) {
  State& s = state();
  bool fresh;
  {
    std::lock_guard lock(s.mutex);
    auto found = std::find_if(s.ahead.begin(), s.ahead.end(), [&](const Shared& w) { return w->job.tag == tag; });
    if (found == s.ahead.end()) return false;
    fresh = !(*found)->begun;
    s.demanded.push_back(*found);
    s.ahead.erase(found);
  }
  s.work.notify_all();
  return fresh;
}

std::vector<int64_t> Readers::withdraw(const std::vector<int64_t>& tags) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  std::vector<int64_t> forgotten;
  std::erase_if(s.ahead, [&](const Shared& w) {
    bool is_named = !w->begun && std::find(tags.begin(), tags.end(), w->job.tag) != tags.end();
    if (is_named) forgotten.push_back(w->job.tag);
    return is_named;
  });
  return forgotten;
}

std::vector<ReadResult> Readers::collect(double timeout) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (timeout > 0) s.wait_done(lock, timeout, [&] { return !s.finished.empty(); });
  return std::exchange(s.finished, {});
}

bool Readers::quiesce(double timeout) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  auto is_new = [](const Shared& w) { return !w->begun; };
  std::erase_if(s.demanded, is_new), std::erase_if(s.ahead, is_new);
  return s.wait_done(lock, timeout, [&] { return s.unfinished == 0; });
}

void Readers::close() { state().end(); }

}  // namespace coli
