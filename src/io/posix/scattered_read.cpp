// SPDX-License-Identifier: Apache-2.0
#include "io/posix/scattered_read.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace st::io {

ssize_t read_scattered(int descriptor, std::span<const iovec> pieces, off_t offset) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // some systems refuse 2 GiB
  return pread(descriptor, pieces[0].iov_base, std::min(pieces[0].iov_len, kMostAtOnce), offset);
}

}  // namespace st::io
