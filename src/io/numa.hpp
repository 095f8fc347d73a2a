// Where memory lies in a machine with several nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace st::io {

// Asks the system to take pages that have not been touched from the memory of this node. A hint: nothing happens where
// that is not possible.
void prefer_node(std::byte* begin, std::size_t bytes, int node);

}  // namespace st::io
