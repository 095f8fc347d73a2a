// SPDX-License-Identifier: Apache-2.0
#include "base/parallel_for.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace st {

namespace {

class Rounds {
 public:
  explicit Rounds(const std::function<void(std::size_t)>& body) : body_(body) {}

  void call(std::size_t i) noexcept {
    if (stopped_.load(std::memory_order_relaxed)) return;
    try {
      body_(i);
    } catch (...) {
      stopped_.store(true, std::memory_order_relaxed);
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }

  // Call this only after all threads have ended.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  const std::function<void(std::size_t)>& body_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::exception_ptr first_;
};

void run_on_own_threads(std::size_t n, unsigned threads, Rounds& rounds) {
  std::atomic<std::size_t> next{1};
  const auto work = [&next, &rounds, n] {
    for (std::size_t i = next.fetch_add(1); i < n; i = next.fetch_add(1)) rounds.call(i);
  };
  std::vector<std::jthread> others;  // joined by their destructors
  const std::size_t wanted = std::min<std::size_t>(threads, n) - 1;
  try {
    while (others.size() < wanted) others.emplace_back(work);
  } catch (const std::exception&) {
    // The system cannot start more threads. The others do all the work.
  }
  rounds.call(0);
  work();
}

}  // namespace

void parallel_for(std::size_t n, unsigned threads, const std::function<void(std::size_t)>& body) {
  if (n == 0) return;
  Rounds rounds(body);
  run_on_own_threads(n, std::max(threads, 1U), rounds);
  rounds.rethrow();
}

void parallel_for(std::size_t n, unsigned threads, const HostPool& pool, const std::function<void(std::size_t)>& body) {
  if (pool.parallel_for == nullptr) return parallel_for(n, threads, body);
  Rounds rounds(body);
  pool.parallel_for(
      pool.ctx, n, [](void* arg, std::size_t i) { static_cast<Rounds*>(arg)->call(i); }, &rounds);
  rounds.rethrow();
}

unsigned hardware_threads() { return std::max(std::thread::hardware_concurrency(), 1U); }

}  // namespace st
