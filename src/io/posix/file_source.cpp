// Files as sources, and the paths of their bytes in bulk reads.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/file_source.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "io/posix/edit.hpp"
#include "io/posix/system.hpp"

namespace st::io {

namespace {

// Cached reads are faster once about a third of the range is resident. Measured where the disk gives 4 GB/s directly
// and 2.8 GB/s through the cache, and the cache gives 18 GB/s.
constexpr std::uint64_t kCachedOneIn = 3;
// A long range is judged by samples. Counting the pages of 512 MiB takes 3 ms, but copying 64 columns of matrices of that
// size takes half as long.
constexpr std::uint64_t kMostSamples = 8;
constexpr std::uint64_t kSampleBytes = 64 << 10;

// The rest of a list of reads that is being filled.
class Filling {
 public:
  explicit Filling(std::span<const Read> reads) : reads_(reads) {}

  // Sets the pieces of the next adjacent reads, and returns their number.
  std::size_t next(std::span<iovec> pieces) const {
    std::size_t n = 0;
    std::size_t skip = inside_;
    std::uint64_t end = position();
    for (std::size_t i = at_; i < reads_.size() && n < pieces.size(); ++i, skip = 0) {
      if (reads_[i].offset + skip != end) break;
      pieces[n++] = {reads_[i].dst + skip, reads_[i].bytes - skip};
      end = reads_[i].offset + reads_[i].bytes;
    }
    return n;
  }

  void advance(std::size_t bytes) {
    bytes += inside_;
    while (at_ < reads_.size() && bytes >= reads_[at_].bytes) bytes -= reads_[at_++].bytes;
    inside_ = bytes;
  }

  bool finished() const { return at_ == reads_.size(); }
  std::uint64_t position() const { return reads_[at_].offset + inside_; }  // unless finished

 private:
  std::span<const Read> reads_;
  std::size_t at_ = 0;
  std::size_t inside_ = 0;
};

}  // namespace

// ---- the source ----------------------------------------------------------------------------------------------------

std::unique_ptr<Source> file_source_unless_directory(const char* path) {
  std::optional<RegularFile> file = RegularFile::open_unless_directory(path);
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
  traits.joins_reads = true;
  return traits;
}

void FileSource::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  if (n == 0) return;
  try {
    file_.read_at(base_ + offset, dst, n);
  } catch (const Error& error) {
    // The path now leads elsewhere, for example after a save over it. The mapping still contains the file that was
    // opened.
    const Mapping& kept = mapping_.writable() ? original_ : mapping_;
    const bool elsewhere = error.status == Status::read && file_.descriptor() < 0 && kept.data() != nullptr;
    if (!elsewhere || !copy_from_pages(kept.data() + offset, dst, n)) throw;
  }
}

std::unique_ptr<SourceReader> FileSource::open_reader(Cache cache) const {
#ifdef ST_MINIMAL  // without direct reads
  return Source::open_reader(cache);
#else
  return std::make_unique<FileReader>(*this, cache);
#endif
}

const std::byte* FileSource::view() const {
  const std::byte* const mapped = mapping_.data();
  if (mapped != nullptr || !maps_later_) return mapped;
  return file_.is_intact() ? mapping_.made(file_.descriptor(), base_) : nullptr;
}

// The system uses the lowest free number, so a limit on the number also limits how many descriptors all handles of a
// process keep.
bool FileSource::may_keep_descriptor() const {
  const auto number = static_cast<std::size_t>(file_.descriptor());
  return number < std::min(kMostKeptOpen, most_descriptors() / 4);
}

// The descriptor shows whether a file that has lost its name is overwritten, and reads through it notice a truncation.
void FileSource::prepare(Mode mode, bool may_keep_open) {
  const bool keeps = may_keep_open && may_keep_descriptor();
  if (mode == Mode::automatic && keeps) {
    map_at_first_view();
  } else {
    map(mode);
  }
  if (!keeps && (is_mapped() || !may_keep_open)) release_descriptor();
}

void FileSource::map(Mode mode) {
  if (mode == Mode::read || size() == 0) return;
  if (mode == Mode::automatic && file_.remote()) return;
  const MapKind kind = mode == Mode::copy_on_write ? MapKind::copy_on_write : MapKind::read_only;
  int os_error = 0;
  mapping_ = Mapping::of(file_.descriptor(), base_, size(), kind, os_error);
  if (mapping_.data() == nullptr && mode != Mode::automatic) fail_os(Status::map, os_error, "mapping {} bytes", size());
}

void FileSource::map_at_first_view() {
  if (file_.remote() || size() == 0) return;
  mapping_ = Mapping::later(size());
  maps_later_ = true;
}

void FileSource::release_descriptor() {
  if (file_.descriptor() < 0 || maps_later_) return;
  if (mapping_.writable()) {
    int refused = 0;
    original_ = Mapping::of(file_.descriptor(), base_, size(), MapKind::read_only, refused);
    if (original_.data() == nullptr) return;  // the descriptor is all that leads to the file's own bytes
  }
  file_.release_descriptor(mapping_.data() != nullptr);
}

void FileSource::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  mapping_.advise(offset, n, advice);
  // A descriptor that is kept for mapping must not be used to drop pages from the page cache, because other processes
  // share it.
  if (advice == Advice::dont_need && (maps_later_ || is_mapped())) return;
  file_.advise(base_ + offset, n, advice);
}

bool FileSource::changed_lately() const {
  struct stat status {};
  return file_.descriptor() >= 0 && (fstat(file_.descriptor(), &status) != 0 || io::changed_lately(status));
}

std::shared_ptr<const void> FileSource::lock_out_edits() const {
  EditLock lock = EditLock::shared(file_);
  if (!lock.held()) return nullptr;
  return std::make_shared<EditLock>(std::move(lock));
}

// ---- bulk reads ----------------------------------------------------------------------------------------------------

// A descriptor borrowed for one read. descriptor() is -1 if none is free, or if the path leads elsewhere by now.
class FileReader::Borrowed {
 public:
  explicit Borrowed(FileReader& file) : file_(file) {
    {
      const std::lock_guard lock(file_.mutex_);
      if (!file_.idle_.empty()) {
        own_ = std::move(file_.idle_.back());
        file_.idle_.pop_back();
        return;
      }
    }
    try {
      own_ = file_.open_descriptor();
    } catch (const Error&) {
      return;
    }
  }
  Borrowed(Borrowed&&) = delete;
  ~Borrowed() {
    if (!own_) return;
    const std::lock_guard lock(file_.mutex_);
    file_.idle_.push_back(std::move(own_));
  }
  int descriptor() const { return own_.get(); }

 private:
  FileReader& file_;
  Descriptor own_;
};

// Reserves room among the idle descriptors first, so that returning one needs no memory.
Descriptor FileReader::open_descriptor() {
  {
    const std::lock_guard lock(mutex_);
    idle_.reserve(opened_ + 1);
    ++opened_;
  }
  try {
    return source_.file().reopen(0);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --opened_;
    throw;
  }
}

void FileReader::close_idle() {
  const std::lock_guard lock(mutex_);
  opened_ -= idle_.size();
  idle_.clear();
}

void FileReader::retire() {
  close_idle();
  direct_.close();
}

// The caller holds the lock.
void FileReader::open_direct() {
  direct_tried_ = true;
  if (direct_flag() == 0) return;
  try {
    direct_ = source_.file().reopen(direct_flag());
  } catch (const Error&) {
    return;  // no direct I/O, no free descriptor, or another file at this path: keep the current path
  }
  alignment_ = direct_alignment(direct_.get());
}

bool FileReader::can_read_directly() {
  const std::lock_guard lock(mutex_);
  if (!direct_tried_) open_direct();
  return alignment_ != 0 && direct_works_.load(std::memory_order_relaxed);
}

bool FileReader::is_cached(std::uint64_t begin, std::uint64_t end) {
  if (cache_ == Cache::around || source_.file().remote()) return false;
  const Borrowed borrowed(*this);
  if (borrowed.descriptor() < 0) return false;
  std::uint64_t resident = 0;
  std::uint64_t seen = 0;
  const std::uint64_t step = std::max((end - begin) / kMostSamples, kSampleBytes);
  for (std::uint64_t at = begin; at < end; at += step) {
    const std::uint64_t n = std::min(kSampleBytes, end - at);
    const auto known = residency(borrowed.descriptor(), at, n);
    if (!known) return false;
    if (known->dirty) return true;  // direct reads of dirty pages would wait until the disk has them
    resident += known->resident;
    seen += n;
  }
  return resident >= seen / kCachedOneIn;
}

// A writable mapping may contain the caller's bytes instead of the file's.
const std::byte* FileReader::memory() const {
  return cache_ == Cache::mapped && !source_.view_is_writable() ? source_.view() : nullptr;
}

ReadPath FileReader::path_for(std::uint64_t begin, std::uint64_t end) {
  if (is_cached(begin, end)) return ReadPath::cached;
  const bool through = cache_ == Cache::through || (cache_ != Cache::around && source_.file().remote());
  return !through && can_read_directly() ? ReadPath::direct : ReadPath::buffered;
}

bool FileReader::read_many(ReadPath path, std::span<const Read> reads, std::uint64_t needed_end) {
  if (path == ReadPath::direct) {
    return read_descriptor(direct_.get(), reads, needed_end, true);
  }
  if (const Borrowed borrowed(*this); borrowed.descriptor() >= 0) {
    return read_descriptor(borrowed.descriptor(), reads, needed_end, false);
  }
  // The source may still have a mapping.
  for (const Read& read : reads) {
    if (read.offset < needed_end) source_.read_at(read.offset - source_.base(), read.dst, read.bytes);
  }
  return true;
}

bool FileReader::direct_refused(int os_error) {
  if (os_error == EIO) return false;
  // EFAULT and ENOMEM concern this memory, not the file: for example, device memory cannot be pinned.
  if (os_error == EINVAL || os_error == EOPNOTSUPP) direct_works_.store(false, std::memory_order_relaxed);
  return true;
}

bool FileReader::read_descriptor(int descriptor, std::span<const Read> reads, std::uint64_t needed_end, bool direct) {
  std::array<iovec, 128> pieces;
  Filling filling(reads);
  while (!filling.finished() && filling.position() < needed_end) {
    const std::size_t n = filling.next(pieces);
    const std::uint64_t at = filling.position();
    const ssize_t got = read_scattered(descriptor, {pieces.data(), n}, static_cast<off_t>(at));
    if (got > 0) {
      filling.advance(static_cast<std::size_t>(got));
    } else if (got == 0) {
      fail_at(Status::truncated, at, "{} has no byte {}: it has become shorter since it was opened",
              source_.file().shown(), at);
    } else if (errno != EINTR) {
      if (direct && direct_refused(errno)) return false;
      throw Error{Status::read, errno, at,
                  formatted("{}: reading at {}: {}", source_.file().shown(), at, os_error_text(errno))};
    }
  }
  return true;
}

}  // namespace st::io
