// SPDX-License-Identifier: Apache-2.0
#include "format/header_length.hpp"

#include "base/error.hpp"

namespace st::format {

std::uint64_t load_length(std::span<const char> bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

void store_length(char* to, std::uint64_t length) {
  for (std::size_t i = 0; i < kLengthBytes; ++i) to[i] = static_cast<char>(length >> (8 * i) & 0xFF);
}

std::uint64_t padded_length(std::uint64_t length, std::uint64_t alignment) {
  if (length <= kMaxHeaderBytes) {
    length = (length + kLengthBytes + alignment - 1) / alignment * alignment - kLengthBytes;
    if (length <= kMaxHeaderBytes) return length;
  }
  fail(Status::header_size, "the header would be {} bytes long, the limit is {}", length, kMaxHeaderBytes);
}

}  // namespace st::format
