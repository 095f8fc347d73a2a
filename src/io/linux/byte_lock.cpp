// SPDX-License-Identifier: Apache-2.0
#include "io/posix/byte_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace st::io {

namespace {

constexpr off_t kLockedByte = static_cast<off_t>(std::uint64_t{1} << (sizeof(off_t) > 4 ? 62 : 30));

short kind_of(ByteLock lock) {
  switch (lock) {
    case ByteLock::shared: return F_RDLCK;
    case ByteLock::exclusive: return F_WRLCK;
    case ByteLock::none: break;
  }
  return F_UNLCK;
}

}  // namespace

int set_byte_lock(int descriptor, ByteLock kind) {
  struct flock lock {};
  lock.l_type = kind_of(kind);
  lock.l_whence = SEEK_SET;
  lock.l_start = kLockedByte;
  lock.l_len = 1;
  return fcntl(descriptor, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

}  // namespace st::io
