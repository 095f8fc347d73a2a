// From calloc(), which takes large zeroed memory from the system as it is. What it gave lies noted in front of the buffer.
// SPDX-License-Identifier: Apache-2.0
#include "io/buffer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "base/parallel_for.hpp"

namespace st::io {

namespace {

constexpr std::uint64_t kTouchedBytes = std::uint64_t{64} << 20;
constexpr unsigned kMostThreads = 16;

void touch(std::byte* begin, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes; at += page) const_cast<volatile std::byte&>(begin[at]) = std::byte{0};
}

struct FreeBuffer {
  void operator()(std::byte* buffer) const { free_buffer(buffer); }
};

}  // namespace

std::byte* new_buffer(std::uint64_t bytes, Pages pages, unsigned threads) {
  constexpr std::size_t kFront = sizeof(void*);
  if (bytes > SIZE_MAX / 2) fail(Status::no_memory, "a buffer of {} bytes", bytes);
  void* const memory = std::calloc(1, static_cast<std::size_t>(bytes) + kFront + kBufferAlignment);
  if (memory == nullptr) fail_os(Status::no_memory, ENOMEM, "a buffer of {} bytes", bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t skipped = kBufferAlignment - (address + kFront) % kBufferAlignment + kFront;
  std::byte* const begin = static_cast<std::byte*>(memory) + skipped;
  *reinterpret_cast<void**>(begin - kFront) = memory;
  std::unique_ptr<std::byte, FreeBuffer> buffer(begin);
  if (pages == Pages::as_they_are_touched) return buffer.release();
  const auto parts = static_cast<std::size_t>((bytes + kTouchedBytes - 1) / kTouchedBytes);
  parallel_for(parts, threads != 0 ? threads : std::min(hardware_threads(), kMostThreads), [&](std::size_t i) {
    const std::uint64_t at = i * kTouchedBytes;
    touch(begin + at, static_cast<std::size_t>(std::min(kTouchedBytes, bytes - at)));
  });
  return buffer.release();
}

void free_buffer(std::byte* buffer) noexcept {
  if (buffer != nullptr) std::free(*reinterpret_cast<void**>(buffer - sizeof(void*)));
}

}  // namespace st::io
