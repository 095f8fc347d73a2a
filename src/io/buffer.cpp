// SPDX-License-Identifier: Apache-2.0
#include "io/buffer.hpp"

#include <algorithm>
#include <memory>

#include "base/parallel_for.hpp"

namespace st::io {

namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;
constexpr unsigned kMostThreads = 16;
constexpr std::size_t kPage = 4096;  // no system has shorter ones

void bring_pages(std::byte* begin, std::size_t bytes) {
  if (populate_buffer(begin, bytes)) return;
  for (std::size_t at = 0; at < bytes; at += kPage) const_cast<volatile std::byte&>(begin[at]) = std::byte{0};
}

struct FreeBuffer {
  void operator()(std::byte* buffer) const { free_buffer(buffer); }
};

}  // namespace

std::byte* new_buffer(std::uint64_t bytes, Pages pages, unsigned threads) {
  std::unique_ptr<std::byte, FreeBuffer> buffer(reserve_buffer(bytes));
  if (pages == Pages::as_they_are_touched) return buffer.release();
  const auto pieces = static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
  parallel_for(pieces, threads != 0 ? threads : std::min(hardware_threads(), kMostThreads), [&](std::size_t i) {
    const std::uint64_t at = i * kPieceBytes;
    bring_pages(buffer.get() + at, static_cast<std::size_t>(std::min(kPieceBytes, bytes - at)));
  });
  return buffer.release();
}

}  // namespace st::io
