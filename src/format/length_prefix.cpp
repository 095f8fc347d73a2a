// SPDX-License-Identifier: Apache-2.0
#include "format/length_prefix.hpp"

#include "base/error.hpp"
#include "format/sniff.hpp"

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
  fail(Status::header_size, "the header would be {} bytes long, above the limit of {}", length, kMaxHeaderBytes);
}

// The checks are in the order of docs/format.md 1.1. The first one that fails determines the error.
HeaderExtent extent_by_length(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options,
                              bool recognized) {
  if (file_size < kLengthBytes) {
    refuse_other_kinds(prefix, file_size);
    fail_at(Status::truncated, file_size, "the file has {} bytes, but the length field alone takes 8", file_size);
  }
  const std::uint64_t length = load_length(prefix);
  const std::uint64_t limit = header_limit(options);
  if (length == 0 || length > limit || length > file_size - kLengthBytes || !recognized) {
    refuse_other_kinds(prefix, file_size);
  }
  if (length > kMaxHeaderBytes) {
    fail_at(
        Status::header_size, 0,
        "the header would be {} bytes long, above the limit of {}: not a safetensors file, or its first bytes are wrong",
        length, limit);
  }
  if (length > limit)
    fail_at(Status::header_size, 0, "the header is {} bytes long, above the limit of {}", length, limit);
  if (length > file_size - kLengthBytes) {
    fail_at(Status::truncated, file_size,
            "the header is {} bytes long, but the file has only {} after the length field", length,
            file_size - kLengthBytes);
  }
  return {kLengthBytes, length};
}

}  // namespace st::format
