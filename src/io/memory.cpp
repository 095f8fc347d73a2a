// The portable parts of buffers and mappings. The memory.cpp of each system has the rest.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/parallel_for.hpp"
#include "io/os.hpp"

namespace st::io {

namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;
constexpr unsigned kMostThreads = 16;
constexpr std::size_t kPage = 4096;  // no system has smaller ones

void bring_pages(std::byte* begin, std::size_t bytes) {
  if (populate_buffer(begin, bytes)) return;
  for (std::size_t at = 0; at < bytes; at += kPage) const_cast<volatile std::byte&>(begin[at]) = std::byte{0};
}

}  // namespace

std::byte* new_buffer(std::uint64_t bytes, Pages pages, unsigned threads) {
  std::byte* const buffer = reserve_buffer(bytes);
  if (pages == Pages::as_they_are_touched) return buffer;
  const auto pieces = static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
  // This cannot throw: the function does not, and std::function stores two references without an allocation.
  parallel_for(pieces, threads != 0 ? threads : std::min(hardware_threads(), kMostThreads), [&](std::size_t i) {
    const std::uint64_t at = i * kPieceBytes;
    bring_pages(buffer + at, static_cast<std::size_t>(std::min(kPieceBytes, bytes - at)));
  });
  return buffer;
}

Mapping Mapping::of(std::intptr_t file, std::uint64_t offset, std::uint64_t size, MapKind kind, int& os_error) {
  Mapping mapping;
  os_error = 0;
  if (size == 0) return mapping;
  const std::uint64_t slack = offset % granularity();
  if (size > std::numeric_limits<std::size_t>::max() - slack) {
    os_error = out_of_memory();  // more than this machine can address
    return mapping;
  }
  void* const start = map(file, offset - slack, static_cast<std::size_t>(size + slack), kind, os_error);
  if (start == nullptr) return mapping;
  mapping.data_ = static_cast<std::byte*>(start) + slack;
  mapping.size_ = size;
  mapping.kind_ = kind;
  return mapping;
}

Mapping Mapping::later(std::uint64_t size) {
  Mapping mapping;
  mapping.size_ = size;
  return mapping;
}

std::byte* Mapping::made(std::intptr_t file, std::uint64_t offset) const {
  int refused = 0;
  const Mapping mine = of(file, offset, size_, kind_, refused);
  std::byte* theirs = nullptr;
  if (!data_.compare_exchange_strong(theirs, mine.data(), std::memory_order_acq_rel)) return theirs;
  return mine.data_.exchange(nullptr);
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = other.data_.exchange(nullptr);
  size_ = std::exchange(other.size_, 0);
  kind_ = other.kind_;
  return *this;
}

Mapping::~Mapping() { release(); }

void Mapping::release() {
  std::byte* const begin = data_.exchange(nullptr);
  if (begin == nullptr) return;
  const std::size_t slack = reinterpret_cast<std::uintptr_t>(begin) % granularity();
  unmap(begin - slack, static_cast<std::size_t>(size_) + slack);
}

}  // namespace st::io
