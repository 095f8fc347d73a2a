// What is the same on all systems; granularity(), map(), unmap() and advise() are in the folder of each.
// SPDX-License-Identifier: Apache-2.0
#include "io/mapping.hpp"

#include <limits>
#include <utility>

#include "io/os_error.hpp"

namespace st::io {

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
