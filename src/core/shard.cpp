// The way of the data at open: length, limit, owned copy, table. Nothing reads the header from the file again, so
// that no offset can change after it was checked.
// SPDX-License-Identifier: Apache-2.0
#include "core/shard.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace st {

namespace {

constexpr std::size_t kPrefixBytes = 64;  // enough to tell other kinds of file
constexpr std::size_t kAlignment = alignof(std::max_align_t);

}  // namespace

Shard::~Shard() {
  if (header != nullptr) memory->deallocate(header, header_bytes + format::kPadding, kAlignment);
  if (char* const raw = raw_header.load()) memory->deallocate(raw, header_bytes + 1, kAlignment);
}

void load(Shard& shard, io::Mode mode, format::HeaderOptions options) {
  const std::uint64_t size = shard.source.size();
  std::array<char, kPrefixBytes> prefix{};
  const auto have = static_cast<std::size_t>(std::min<std::uint64_t>(size, prefix.size()));
  shard.source.read_at(0, prefix.data(), have);
  const auto length = static_cast<std::size_t>(format::measure({prefix.data(), have}, size, options));

  shard.header = static_cast<char*>(shard.memory->allocate(length + format::kPadding, kAlignment));
  shard.header_bytes = length;
  shard.source.read_at(format::kLengthBytes, shard.header, length);
  std::memset(shard.header + length, 0, format::kPadding);

  options.shard = &shard;
  format::read_header({shard.header, length}, size, options, shard.table);
  shard.source.map(mode);
  if (shard.source.view() != nullptr) shard.source.rest();
}

const char* raw_header(const Shard& shard) {
  if (const char* const made = shard.raw_header.load(std::memory_order_acquire)) return made;
  char* copy = nullptr;
  try {
    copy = static_cast<char*>(shard.memory->allocate(shard.header_bytes + 1, kAlignment));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  format::restore_header({shard.header, shard.header_bytes}, shard.table, copy);
  copy[shard.header_bytes] = '\0';
  char* earlier = nullptr;
  if (shard.raw_header.compare_exchange_strong(earlier, copy, std::memory_order_acq_rel)) return copy;
  shard.memory->deallocate(copy, shard.header_bytes + 1, kAlignment);  // another thread was first
  return earlier;
}

void read(const Tensor& tensor, void* dst) {
  tensor.shard->source.read_at(tensor.shard->offset_of(tensor), dst, static_cast<std::size_t>(tensor.bytes()));
}

}  // namespace st
