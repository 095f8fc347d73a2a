// The order of the checks is the order of docs/format.md 1.1, because the first that fails names the error.
// SPDX-License-Identifier: Apache-2.0
#include "format/length_prefix.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "format/header_length.hpp"
#include "format/sniff.hpp"

namespace st::format {

HeaderExtent extent_by_length(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options,
                              bool recognized) {
  if (file_size < kLengthBytes) {
    refuse_other_kinds(prefix, file_size);
    fail_at(Status::truncated, file_size, "the file has {} bytes, and a header's length alone takes 8", file_size);
  }
  const std::uint64_t length = load_length(prefix);
  const std::uint64_t limit = std::min(options.max_bytes, kMaxHeaderBytes);
  if (length == 0 || length > limit || length > file_size - kLengthBytes || !recognized) {
    refuse_other_kinds(prefix, file_size);
  }
  if (length > kMaxHeaderBytes) {
    fail_at(
        Status::header_size, 0,
        "the header would be {} bytes long, and the limit is {}: not a safetensors file, or its first bytes are wrong",
        length, limit);
  }
  if (length > limit) fail_at(Status::header_size, 0, "the header is {} bytes long, the limit is {}", length, limit);
  if (length > file_size - kLengthBytes) {
    fail_at(Status::truncated, file_size, "the header is {} bytes long, the file has only {} after its length", length,
            file_size - kLengthBytes);
  }
  return {kLengthBytes, length};
}

}  // namespace st::format
