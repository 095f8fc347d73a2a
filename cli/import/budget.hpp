// Limits the memory for the contents of a checkpoint.
//
// A pickle can use one value a million times, and an archive can compress it a thousandfold, so a 2 kB file could
// exhaust any memory. One limit covers the values, names, dimensions and tensors of a file. Charges are never refunded,
// so the limit also bounds the time for copying.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "error.hpp"

namespace cli::importer {

class Budget {
 public:
  static constexpr std::uint64_t kFree = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kTimes = 32;  // a real pickle needs about 12 times its size
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 30;

  explicit Budget(std::uint64_t file_bytes) : limit_(limit_of(file_bytes)), left_(limit_) {}

  // Throws an ImportError for the offset `at` if the contents exceed the limit.
  void charge(std::uint64_t bytes, std::uint64_t at) {
    if (bytes > left_) {
      fail(at, "contents take more than {} bytes of memory (limit: 64 MiB and {} times the file, at most 1 GiB)",
           limit_, kTimes);
    }
    left_ -= bytes;
  }

 private:
  static std::uint64_t limit_of(std::uint64_t file_bytes) {
    return std::min(kMost, kFree + std::min(file_bytes, kMost) * kTimes);
  }

  std::uint64_t limit_;
  std::uint64_t left_;
};

}  // namespace cli::importer
