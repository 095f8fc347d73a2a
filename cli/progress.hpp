// A progress bar on standard error, shown only on a terminal and for long operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cli {

class Progress {
 public:
  explicit Progress(std::string what);  // shows no bar if empty
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string what_;
  const bool terminal_;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point drawn_ = begun_;
  bool visible_ = false;
};

}  // namespace cli
