#include "pool.h"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#define COLI_RELAX() _mm_pause()
#elif defined(__aarch64__)
#define COLI_RELAX() asm volatile("yield")
#else
#define COLI_RELAX() std::this_thread::yield()
#endif

namespace coli {
namespace {

// Before a worker parks, some 0.3 ms: Python between two kernels takes less, and to wake up in a virtual machine takes
// longer than half of an expert's product.
constexpr int kSpins = 30000;

class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this] { work(); });
  }
  ~Pool() {
    stop_ = true;
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (auto& t : workers_) t.join();
  }
  int threads() const { return (int)workers_.size() + 1; }

  void wake() {
    if (sleepers_.load() == 0) return;
    epoch_.fetch_add(1);  // without a job: nothing to claim, so they spin again
    epoch_.notify_all();
  }

  void run(int64_t n, int64_t chunk, const std::function<void(int64_t, int64_t)>& f) {
    // Close the old epoch first: a late worker then sees no chunk while the job is exchanged.
    uint64_t next_epoch = ((ticket_.load() >> 32) + 1) << 32;
    ticket_.store(next_epoch | 0xffffffffu);
    job_ = &f;
    n_ = n;
    chunk_ = chunk;
    auto chunks = (uint32_t)((n + chunk - 1) / chunk);
    chunks_.store(chunks);
    done_.store(0);
    ticket_.store(next_epoch, std::memory_order_release);
    epoch_.fetch_add(1);
    if (sleepers_.load() > 0) epoch_.notify_all();
    drain();
    for (int spin = 0; done_.load(std::memory_order_acquire) < chunks;) {
      if (++spin < kSpins) COLI_RELAX();
      else std::this_thread::yield();
    }
  }

 private:
  // The ticket is epoch << 32 | next chunk: a compare-and-swap claims a chunk only in the epoch it was read in.
  void drain() {
    for (;;) {
      uint64_t t = ticket_.load(std::memory_order_acquire);
      auto i = (uint32_t)t;
      if (i >= chunks_.load(std::memory_order_relaxed)) return;
      if (!ticket_.compare_exchange_weak(t, t + 1, std::memory_order_acq_rel)) continue;
      int64_t begin = (int64_t)i * chunk_, end = begin + chunk_ < n_ ? begin + chunk_ : n_;
      (*job_)(begin, end);
      done_.fetch_add(1, std::memory_order_release);
    }
  }
  void work() {
    int seen = 0;
    while (!stop_) {
      for (int spin = 0; epoch_.load() == seen;) {
        if (++spin < kSpins) {
          COLI_RELAX();
        } else {
          sleepers_.fetch_add(1);
          epoch_.wait(seen);
          sleepers_.fetch_sub(1);
        }
      }
      seen = epoch_.load();
      if (!stop_) drain();
    }
  }

  alignas(64) std::atomic<uint64_t> ticket_{0xffffffffu};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<int> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> chunks_{0};
  const std::function<void(int64_t, int64_t)>* job_ = nullptr;
  int64_t n_ = 0, chunk_ = 1;
  std::vector<std::thread> workers_;
};

// Never destroyed at exit, where another thread may still be computing.
auto* g_mutex = new std::mutex;
Pool* g_pool = nullptr;

Pool& pool() {
  if (!g_pool) g_pool = new Pool(1);
  return *g_pool;
}

#if defined(__unix__) || defined(__APPLE__)
// A forked child has neither the workers nor whoever held the mutex: it starts anew.
const int g_at_fork = pthread_atfork(nullptr, nullptr, [] {
  g_mutex = new std::mutex;
  g_pool = nullptr;
});
#endif

}  // namespace

void set_num_threads(int n) {
  std::lock_guard<std::mutex> lock(*g_mutex);
  if (g_pool && g_pool->threads() == n) return;
  delete g_pool;
  g_pool = nullptr;
  g_pool = new Pool(n);
}

int num_threads() {
  std::lock_guard<std::mutex> lock(*g_mutex);
  return pool().threads();
}

void parallel_for(int64_t n, int64_t chunk, const std::function<void(int64_t, int64_t)>& f) {
  if (n <= 0) return;
  if (n <= chunk) return f(0, n);
  std::lock_guard<std::mutex> lock(*g_mutex);
  if (pool().threads() == 1) return f(0, n);
  pool().run(n, chunk, f);
}

void wake_workers() {
  std::unique_lock<std::mutex> lock(*g_mutex, std::try_to_lock);
  if (lock && g_pool) g_pool->wake();  // else they are at work
}

}  // namespace coli
