// A group of processes that run their plans together, and its collective operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"

namespace st::core {

enum class Reduce : std::int32_t { sum = 1, min = 2, max = 3 };

// As st_group. The functions return 0 on success.
struct Group {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint64_t exchange_bytes = 0;  // memory in this process; 0: 256 MiB
  void* ctx = nullptr;
  std::int32_t (*reduce)(void* ctx, std::int32_t op, std::uint64_t* values, std::size_t n) = nullptr;
  std::int32_t (*exchange)(void* ctx, const void* send, const std::int32_t* send_counts,
                           const std::int32_t* send_offsets, void* recv, const std::int32_t* recv_counts,
                           const std::int32_t* recv_offsets) = nullptr;
};

inline constexpr std::uint32_t kMostProcesses = 8191;  // the counts and offsets of an exchange then fit 31 bits

// These throw Status::callback if the function fails. No function of the group may be called after that.
void allreduce(const Group& group, Reduce op, std::uint64_t* values, std::size_t n);
void alltoallv(const Group& group, const void* send, const std::vector<std::int32_t>& send_counts,
               const std::vector<std::int32_t>& send_offsets, void* received,
               const std::vector<std::int32_t>& received_counts, const std::vector<std::int32_t>& received_offsets);

// How a run ends in all processes. The maximum of the verdicts of all processes counts: it names the failed process of
// the lowest rank. 0: no process has failed.
std::uint64_t verdict_of(const Group& group, Status status);
std::uint32_t rank_in(const Group& group, std::uint64_t verdict);
// Throws Status::cancelled or Status::peer, unless the verdict is 0.
void throw_verdict(const Group& group, std::uint64_t verdict);

// The first operation of a run. Each member becomes the minimum of all processes, and its default does not change that.
struct Greeting {
  std::uint64_t not_verdict = UINT64_MAX;  // ~verdict, because the maximum of verdicts counts
  std::uint64_t digest = UINT64_MAX;       // of the headers
  std::uint64_t not_digest = UINT64_MAX;   // ~digest
  std::uint64_t exchange_bytes = UINT64_MAX;

  void combine(const Group& group);
  bool same_digest() const { return digest == ~not_digest; }
};

// Takes part in the first operation of a run, and reports that this process has failed before. Does nothing in a group of
// one process.
void leave_group(const Group& group, Status status);

}  // namespace st::core
