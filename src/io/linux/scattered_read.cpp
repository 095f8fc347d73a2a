// SPDX-License-Identifier: Apache-2.0
#include "io/posix/scattered_read.hpp"

namespace st::io {

ssize_t read_scattered(int descriptor, std::span<const iovec> pieces, off_t offset) {
  return preadv(descriptor, pieces.data(), static_cast<int>(pieces.size()), offset);
}

}  // namespace st::io
