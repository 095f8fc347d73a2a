// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

namespace st::io {

void prefer_node(std::byte* /*begin*/, std::size_t /*bytes*/, int /*node*/) {}

}  // namespace st::io
