// SPDX-License-Identifier: Apache-2.0
#include "core/write_progress.hpp"

#include "base/error.hpp"

namespace st::core {

namespace {

constexpr auto kBetweenWriteReports = std::chrono::milliseconds(10);

}  // namespace

void WriteProgress::start(const WriteCallback& callback, std::uint64_t done, std::uint64_t total) {
  callback_ = callback;
  done_ = done;
  total_ = total;
  reported_ = {};  // so that the first bytes are reported immediately
  cancelled_ = false;
}

void WriteProgress::add(std::uint64_t bytes) {
  if (!wanted()) return;
  done_.fetch_add(bytes, std::memory_order_relaxed);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // another thread is reporting
  if (cancelled_)
    fail(Status::cancelled, "cancelled before {} bytes were written", done_.load(std::memory_order_relaxed));
  const Clock::time_point now = Clock::now();
  if (now - reported_ < kBetweenWriteReports) return;
  reported_ = now;
  // Load this while holding the lock so that reports never decrease.
  const std::uint64_t done = done_.load(std::memory_order_relaxed);
  if (callback_.progress(callback_.ctx, done, total_) == 0) return;
  cancelled_ = true;
  fail(Status::cancelled, "cancelled after {} of {} bytes", done, total_);
}

void WriteProgress::finish() {
  if (wanted()) callback_.progress(callback_.ctx, total_, total_);
}

}  // namespace st::core
