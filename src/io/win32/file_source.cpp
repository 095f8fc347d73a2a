// SPDX-License-Identifier: Apache-2.0
#include "io/win32/file_source.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "io/source.hpp"

namespace st::io {

namespace {

constexpr std::uint64_t kUsualSector = 4096;  // some disks report sectors of 512 bytes and have longer ones

// Returns the alignment of offsets, lengths and addresses of direct reads.
std::uint64_t sector_of(HANDLE file) {
  FILE_STORAGE_INFO storage{};
  if (GetFileInformationByHandleEx(file, FileStorageInfo, &storage, sizeof storage) == FALSE) return kUsualSector;
  return std::max<std::uint64_t>(
      {kUsualSector, storage.LogicalBytesPerSector, storage.FileSystemEffectivePhysicalBytesPerSectorForAtomicity});
}

// Bulk reads of one file: buffered, or direct (FILE_FLAG_NO_BUFFERING) if the caller asked for that. Windows does not
// report what is in its cache, so with Cache::mapped all of a mapped file is taken to be there.
class FileReader final : public SourceReader {
 public:
  FileReader(const FileSource& source, Cache cache) : SourceReader(source), source_(source), cache_(cache) {}

  bool is_cached(std::uint64_t /*begin*/, std::uint64_t /*end*/) override { return memory() != nullptr; }
  const std::byte* memory() const override {
    return cache_ == Cache::mapped && !source_.view_is_writable() ? source_.view() : nullptr;
  }
  ReadPath path_for(std::uint64_t begin, std::uint64_t end) override;
  std::uint64_t alignment() const override { return alignment_; }
  [[nodiscard]] bool read_many(ReadPath path, std::span<const Read> reads, std::uint64_t needed_end) override;

 private:
  bool can_read_directly();
  bool read_directly(const Read& read, std::uint64_t needed_end);

  const FileSource& source_;
  const Cache cache_;
  std::once_flag direct_tried_;
  Handle direct_;
  std::uint64_t alignment_ = 1;
  std::atomic<bool> direct_works_{true};
};

bool FileReader::can_read_directly() {
  std::call_once(direct_tried_, [this] {
    direct_ = source_.file().reopen(FILE_FLAG_NO_BUFFERING);
    if (direct_) alignment_ = sector_of(direct_.get());
  });
  return direct_ && direct_works_.load(std::memory_order_relaxed);
}

ReadPath FileReader::path_for(std::uint64_t begin, std::uint64_t end) {
  if (is_cached(begin, end)) return ReadPath::cached;
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

// After a partial read, the next call would begin inside a sector, so the system refuses it. So check how much has
// arrived before checking the error.
bool FileReader::read_directly(const Read& read, std::uint64_t needed_end) {
  std::size_t got = 0;
  const int error = read_all_at(direct_.get(), read.offset, read.dst, read.bytes, got);
  const std::uint64_t end = std::min(read.offset + read.bytes, needed_end);
  if (read.offset + got >= end) return true;
  if (error != 0) {
    direct_works_.store(false, std::memory_order_relaxed);
    return false;
  }
  fail_at(Status::truncated, read.offset + got, "{} has no byte {}: it has become shorter since it was opened",
          source_.file().shown(), read.offset + got);
}

}  // namespace

std::unique_ptr<Source> file_source_unless_directory(const char* path) {
  std::optional<RegularFile> file = RegularFile::open_unless_directory(native_path(path), path);
  if (!file) return nullptr;
  const std::uint64_t size = file->size();
  return std::make_unique<FileSource>(std::move(*file), 0, size);
}

std::unique_ptr<Source> file_source_of_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size) {
  RegularFile file = RegularFile::duplicate(descriptor);
  const std::uint64_t whole = file.size();
  if (offset > whole || size > whole - offset) {
    fail(Status::range, "{} bytes at offset {} exceed the file of {} bytes", size, offset, whole);
  }
  return std::make_unique<FileSource>(std::move(file), offset, size != 0 ? size : whole - offset);
}

Traits FileSource::traits() const {
  Traits traits;
  traits.origin = base_;
  return traits;
}

void FileSource::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  if (n != 0) file_.read_at(base_ + offset, dst, n);
}

std::unique_ptr<SourceReader> FileSource::open_reader(Cache cache) const {
#ifdef ST_MINIMAL  // without direct reads
  return Source::open_reader(cache);
#else
  return std::make_unique<FileReader>(*this, cache);
#endif
}

void FileSource::prepare(Mode mode, bool /*may_keep_open*/) {
  if (mode == Mode::read || size() == 0) return;
  if (mode == Mode::automatic) {
    if (file_.remote()) return;
    mapping_ = Mapping::later(size());
    maps_later_ = true;
    return;
  }
  const MapKind kind = mode == Mode::copy_on_write ? MapKind::copy_on_write : MapKind::read_only;
  int os_error = 0;
  mapping_ = Mapping::of(file_.number(), base_, size(), kind, os_error);
  if (mapping_.data() == nullptr) fail_os(Status::map, os_error, "mapping {} bytes", size());
}

const std::byte* FileSource::view() const {
  const std::byte* const mapped = mapping_.data();
  return mapped != nullptr || !maps_later_ ? mapped : mapping_.made(file_.number(), base_);
}

void FileSource::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  mapping_.advise(offset, n, advice);
}

}  // namespace st::io
