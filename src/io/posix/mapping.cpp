// SPDX-License-Identifier: Apache-2.0
#include "io/posix/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "io/posix/pages.hpp"

namespace st::io {

namespace {

std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::size_t below_page(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data) % page_size(); }

}  // namespace

Mapping Mapping::of(int descriptor, std::uint64_t offset, std::uint64_t size, MapKind kind, int& os_error) {
  Mapping mapping;
  os_error = 0;
  if (size == 0) return mapping;
  const std::uint64_t slack = offset % page_size();
  if (size > std::numeric_limits<std::size_t>::max() - slack) {
    os_error = ENOMEM;  // more than this machine can address
    return mapping;
  }
  const bool writable = kind == MapKind::copy_on_write;
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  const int flags = MAP_PRIVATE | (writable ? map_without_reserve() : 0);
  void* const start = mmap(nullptr, static_cast<std::size_t>(size + slack), protection, flags, descriptor,
                           static_cast<off_t>(offset - slack));
  if (start == MAP_FAILED) {
    os_error = errno;
    return mapping;
  }
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

std::byte* Mapping::made(int descriptor, std::uint64_t offset) const {
  int refused = 0;
  const Mapping mine = of(descriptor, offset, size_, kind_, refused);
  std::byte* theirs = nullptr;
  if (!data_.compare_exchange_strong(theirs, mine.data(), std::memory_order_acq_rel)) return theirs;
  return mine.data_.exchange(nullptr);
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  data_ = other.data_.exchange(nullptr);
  size_ = std::exchange(other.size_, 0);
  kind_ = other.kind_;
  return *this;
}

Mapping::~Mapping() { unmap(); }

void Mapping::unmap() {
  std::byte* const begin = data_.exchange(nullptr);
  if (begin == nullptr) return;
  const std::size_t slack = below_page(begin);
  munmap(begin - slack, static_cast<std::size_t>(size_) + slack);
}

void Mapping::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  std::byte* const begin = data();
  if (begin == nullptr || n == 0) return;
  // Dropping the pages of a copy-on-write mapping would drop what the caller wrote to them.
  if (advice == Advice::dont_need && kind_ == MapKind::copy_on_write) return;
  std::byte* const first = begin + offset;
  const std::size_t slack = below_page(first);
  advise_pages(first - slack, static_cast<std::size_t>(n) + slack, advice);
}

bool Mapping::copy_out(std::uint64_t offset, void* dst, std::size_t n) const {
  return copy_from_pages(data() + offset, dst, n);
}

}  // namespace st::io
