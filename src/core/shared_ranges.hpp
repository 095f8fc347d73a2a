// Bytes that several requests of a plan want are read once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <forward_list>
#include <vector>

#include "core/read_scheduler.hpp"

namespace st::core {

// What ReadRequest::also points to.
using OtherDestinations = std::forward_list<ReadRequest>;

// Divides ranges of a source that overlap into ranges that do not, of which each has all of its destinations, and keeps
// the requests sorted by (source, begin). Slices that are not contiguous stay as they are, and so do ranges that would
// become very many.
OtherDestinations share_ranges(std::vector<ReadRequest>& requests);

}  // namespace st::core
