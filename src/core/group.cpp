// SPDX-License-Identifier: Apache-2.0
#include "core/group.hpp"

#include <array>

namespace st::core {

void allreduce(const Group& group, Reduce op, std::uint64_t* values, std::size_t n) {
  const std::int32_t code = group.reduce(group.ctx, static_cast<std::int32_t>(op), values, n);
  if (code != 0) fail(Status::callback, "the group's allreduce returned {}", code);
}

void alltoallv(const Group& group, const void* send, const std::vector<std::int32_t>& send_counts,
               const std::vector<std::int32_t>& send_offsets, void* received,
               const std::vector<std::int32_t>& received_counts, const std::vector<std::int32_t>& received_offsets) {
  const std::int32_t code = group.exchange(group.ctx, send, send_counts.data(), send_offsets.data(), received,
                                           received_counts.data(), received_offsets.data());
  if (code != 0) fail(Status::callback, "the group's alltoallv returned {}", code);
}

std::uint64_t verdict_of(const Group& group, Status status) {
  if (status == Status::ok) return 0;
  return std::uint64_t{group.size - group.rank} << 32 | static_cast<std::uint32_t>(status);
}

std::uint32_t rank_in(const Group& group, std::uint64_t verdict) {
  return static_cast<std::uint32_t>(group.size - (verdict >> 32));
}

void throw_verdict(const Group& group, std::uint64_t verdict) {
  if (verdict == 0) return;
  const auto status = static_cast<Status>(verdict & UINT32_MAX);
  if (status == Status::cancelled)
    fail(Status::cancelled, "process {} of the group was cancelled", rank_in(group, verdict));
  fail(Status::peer, "process {} of the group failed with {}", rank_in(group, verdict), status_name(status));
}

void Greeting::combine(const Group& group) {
  std::array<std::uint64_t, 4> values{not_verdict, digest, not_digest, exchange_bytes};
  allreduce(group, Reduce::min, values.data(), values.size());
  not_verdict = values[0];
  digest = values[1];
  not_digest = values[2];
  exchange_bytes = values[3];
}

void leave_group(const Group& group, Status status) {
  if (group.size == 1) return;
  Greeting greeting;
  greeting.not_verdict = ~verdict_of(group, status);
  greeting.combine(group);
}

}  // namespace st::core
