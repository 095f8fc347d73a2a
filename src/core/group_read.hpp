// Reads a plan together with the plans of other processes: bytes that several of them want are read by one process, and
// sent to the others.
//
// docs/engine.md, "Groups", describes the steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "core/bulk_read.hpp"
#include "core/checkpoint.hpp"
#include "core/group.hpp"
#include "core/read_request.hpp"

namespace st::core {

// Reads the requests that `make_requests` returns, as for read_shards(). If it throws, the other processes fail, too. If
// one process fails or is cancelled, all of them throw after the same round: the failed one its error, the others
// Status::peer or Status::cancelled. Calls the group on the calling thread only.
void read_in_group(const Group& group, const Checkpoint& file, const ReadOptions& options, const ReadListener& listener,
                   const std::function<std::vector<ReadRequest>()>& make_requests);

}  // namespace st::core
