// SPDX-License-Identifier: Apache-2.0
#include "system.hpp"

namespace st::io {

bool has_linux_io() { return ST_LINUX_IO != 0; }

}  // namespace st::io
