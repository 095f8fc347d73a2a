// SPDX-License-Identifier: Apache-2.0
#include "core/small_writes.hpp"

#include <algorithm>
#include <new>

namespace st::core {

namespace {

constexpr std::size_t kGather = std::size_t{1} << 20;  // a system call costs as much as copying a few KB
constexpr std::size_t kSmall = std::size_t{8} << 10;   // writing larger data takes less time than copying it twice
constexpr std::uint64_t kMostBytes = std::uint64_t{12} << 20;
constexpr std::uint64_t kMostPieces = 3 * (std::uint64_t{1} << 16);  // 3 MiB

}  // namespace

void Gathering::add(std::uint64_t offset, const void* data, std::size_t n) {
  if (offset != end_ || n > kGather - bytes_.size()) flush();
  if (bytes_.empty()) begin_ = offset;
  end_ = offset + n;
  if (n > kGather / 2 && bytes_.empty()) {
    file_.write_at(offset, data, n);
    return;
  }
  if (!make_room()) {
    file_.write_at(offset, data, n);
    return;
  }
  const auto* const from = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), from, from + n);
}

// Returns false if out of memory.
bool Gathering::make_room() {
  try {
    bytes_.reserve(kGather);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Gathering::flush() {
  if (!bytes_.empty()) file_.write_at(begin_, bytes_.data(), bytes_.size());
  bytes_.clear();
}

void PutBuffer::add(std::uint64_t offset, const void* data, std::size_t n) {
  if (n <= kSmall) {
    const std::lock_guard lock(mutex_);
    if (make_room(n)) return keep(offset, data, n);
  }
  file_.write_at(offset, data, n);
}

void PutBuffer::flush() {
  const std::lock_guard lock(mutex_);
  write_out();
}

// Returns false if out of memory. The first call allocates everything so that keep() cannot fail.
bool PutBuffer::make_room(std::size_t n) {
  try {
    bytes_.reserve(static_cast<std::size_t>(std::min(expected_, kMostBytes)));
    writes_.reserve(static_cast<std::size_t>(std::min(expected_, kMostPieces)));
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (n > bytes_.capacity() - bytes_.size() || writes_.size() == writes_.capacity()) write_out();
  return true;
}

void PutBuffer::keep(std::uint64_t offset, const void* data, std::size_t n) {
  if (!writes_.empty() && writes_.back().offset + writes_.back().n == offset) {
    writes_.back().n += static_cast<std::uint32_t>(n);
  } else {
    writes_.push_back({offset, static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(n)});
  }
  const auto* const from = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), from, from + n);
}

void PutBuffer::write_out() {
  std::sort(writes_.begin(), writes_.end(), [](const Write& a, const Write& b) { return a.offset < b.offset; });
  Gathering gathering(file_);
  for (const Write& write : writes_) gathering.add(write.offset, bytes_.data() + write.at, write.n);
  gathering.flush();
  writes_.clear();
  bytes_.clear();
}

}  // namespace st::core
