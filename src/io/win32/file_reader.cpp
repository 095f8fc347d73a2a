// SPDX-License-Identifier: Apache-2.0
#include "io/win32/file_reader.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "io/win32/read_all.hpp"

namespace st::io {

namespace {

constexpr std::uint64_t kPage = 4096;  // some disks say sectors of 512 bytes and have longer ones

// What offsets, lengths and addresses of direct reads are multiples of.
std::uint64_t sector_of(HANDLE file) {
  FILE_STORAGE_INFO storage{};
  if (GetFileInformationByHandleEx(file, FileStorageInfo, &storage, sizeof storage) == FALSE) return kPage;
  return std::max<std::uint64_t>(
      {kPage, storage.LogicalBytesPerSector, storage.FileSystemEffectivePhysicalBytesPerSectorForAtomicity});
}

}  // namespace

bool FileReader::can_read_directly() {
  std::call_once(direct_tried_, [this] {
    direct_ = source_.file().reopen(FILE_FLAG_NO_BUFFERING);
    if (direct_) alignment_ = sector_of(direct_.get());
  });
  return direct_ && direct_works_.load(std::memory_order_relaxed);
}

bool FileReader::is_cached(std::uint64_t /*begin*/, std::uint64_t /*end*/) { return false; }

ReadPath FileReader::path_for(std::uint64_t /*begin*/, std::uint64_t /*end*/) {
  return cache_ == Cache::around && can_read_directly() ? ReadPath::direct : ReadPath::buffered;
}

bool FileReader::read_many(ReadPath path, std::span<const Read> reads, std::uint64_t needed_end) {
  for (const Read& read : reads) {
    if (read.offset >= needed_end) continue;
    if (path != ReadPath::direct) {
      source_.read_at(read.offset - source_.base(), read.dst,
                      std::min<std::uint64_t>(read.bytes, needed_end - read.offset));
    } else if (!read_directly(read, needed_end)) {
      return false;
    }
  }
  return true;
}

// After a short answer the next call begins inside a sector, which is refused: what matters is what arrived by then.
bool FileReader::read_directly(const Read& read, std::uint64_t needed_end) {
  std::size_t got = 0;
  const int error = read_all_at(direct_.get(), read.offset, read.dst, read.bytes, got);
  const std::uint64_t end = std::min(read.offset + read.bytes, needed_end);
  if (read.offset + got >= end) return true;
  if (error != 0) {
    direct_works_.store(false, std::memory_order_relaxed);
    return false;
  }
  fail_at(Status::truncated, read.offset + got, "{} ends at byte {}: it has become shorter since it was opened",
          source_.file().shown(), read.offset + got);
}

}  // namespace st::io
