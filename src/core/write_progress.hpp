// Counts the bytes written to a file, and reports them to the caller, which may cancel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace st::core {

struct WriteCallback {
  void* ctx = nullptr;
  std::int32_t (*progress)(void* ctx, std::uint64_t done, std::uint64_t total) = nullptr;  // non-zero cancels
};

class WriteProgress {
 public:
  // The longest write between two reports. Such a write ends on a multiple of this size in the file, as large folios
  // do.
  static constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;

  // Begins a count. `done` is the size of the header, which is written before the first report.
  void start(const WriteCallback& callback, std::uint64_t done, std::uint64_t total);
  bool wanted() const { return callback_.progress != nullptr; }

  // Adds bytes written, from any thread. Reports at most every 10 ms, and never from two threads at once. Throws
  // Status::cancelled if the callback returns non-zero.
  void add(std::uint64_t bytes);
  // The final report, which can no longer cancel the write.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  WriteCallback callback_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::mutex mutex_;  // guards the callback and the next members
  Clock::time_point reported_;
  bool cancelled_ = false;  // other puts in flight must not call the callback again
};

}  // namespace st::core
