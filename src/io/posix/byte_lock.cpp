// SPDX-License-Identifier: Apache-2.0
#include "io/posix/byte_lock.hpp"

#include <cerrno>

namespace st::io {

int set_byte_lock(int /*descriptor*/, ByteLock /*lock*/) { return ENOTSUP; }

}  // namespace st::io
