// The functions that a bulk read calls while it works, and what it counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace st::core {

// The work of a bulk read, for st_plan_get_stats.
struct ReadCounts {
  std::uint64_t bytes_read = 0;
  std::uint64_t reads = 0;
  std::uint64_t bytes_copied = 0;  // to devices
  std::uint64_t copies = 0;
  std::uint64_t bytes_sent = 0;  // to other processes
  std::uint64_t bytes_received = 0;
  std::uint64_t exchange_bytes = 0;  // memory for that
};

// By default the functions do nothing. Any thread calls them, several at once unless the comment says otherwise.
struct ReadListener {
  // These bytes of an entry are at their destination.
  std::function<void(std::size_t entry, std::uint64_t bytes)> arrived = [](std::size_t, std::uint64_t) {};
  // Returns true if the read must stop. Always true after a call of stop().
  std::function<bool()> stopped = [] { return false; };
  // A thread has failed, so the others should stop.
  std::function<void()> stop = [] {};
  // One thread calls it between its batches, to report progress.
  std::function<void()> report = [] {};
  // Each thread calls it once when it ends, one thread at a time.
  std::function<void(const ReadCounts& counts)> count = [](const ReadCounts&) {};
  // Returns the name of an entry's tensor, for errors.
  std::function<std::string_view(std::size_t entry)> name_of = [](std::size_t) { return std::string_view(); };
};

}  // namespace st::core
