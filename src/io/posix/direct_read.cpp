// SPDX-License-Identifier: Apache-2.0
#include "io/posix/direct_read.hpp"

namespace st::io {

int direct_flag() { return 0; }

std::uint64_t direct_alignment(int /*descriptor*/) { return 0; }

}  // namespace st::io
