// SPDX-License-Identifier: Apache-2.0
#include "digest.hpp"

#include <new>
#include <string_view>

#include "blocks.hpp"
#include "text.hpp"

namespace cli {

std::uint64_t content_begin(const safetensors::SafeOpen& file, std::size_t shard) {
  constexpr std::uint64_t kLengthField = 8;  // of both formats
  const std::string_view header = file.header(shard);
  if (header.empty()) throw std::bad_alloc();
  return kLengthField + header.size();
}

std::string digest_from(const safetensors::SafeOpen& file, std::size_t shard, std::uint64_t begin, DigestKind kind) {
  Digest digest(kind);
  for_each_part(file, shard, begin, "hashing",
                [&](const Part& part) { digest.add(part.bytes.data(), part.bytes.size()); });
  return hex(digest.finish());
}

}  // namespace cli
