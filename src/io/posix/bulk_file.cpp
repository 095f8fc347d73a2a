// SPDX-License-Identifier: Apache-2.0
#include "io/bulk_file.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "io/posix/direct_read.hpp"
#include "io/posix/residency.hpp"
#include "io/posix/scattered_read.hpp"

namespace st::io {

namespace {

// Reading through the cache is faster than around it from about a third resident on, measured where the disk gives
// 4 GB/s directly and 2.8 through the cache, and the cache 18.
constexpr std::uint64_t kHotOneIn = 3;

std::string shown(const Source& source) {
  const std::string& path = source.file()->path();
  return path.empty() ? "the descriptor's file" : in_quotes(path);
}

// What is left of a list of segments while it is being filled.
class Filling {
 public:
  explicit Filling(std::span<const Segment> segments) : segments_(segments) {}

  std::size_t next(std::span<iovec> pieces) const {
    std::size_t n = 0;
    std::size_t skip = inside_;
    for (std::size_t i = at_; i < segments_.size() && n < pieces.size(); ++i, skip = 0) {
      pieces[n++] = {segments_[i].data + skip, segments_[i].bytes - skip};
    }
    return n;
  }

  void advance(std::size_t bytes) {
    done_ += bytes;
    bytes += inside_;
    while (at_ < segments_.size() && bytes >= segments_[at_].bytes) bytes -= segments_[at_++].bytes;
    inside_ = bytes;
  }

  std::uint64_t done() const { return done_; }
  bool finished() const { return at_ == segments_.size(); }

 private:
  std::span<const Segment> segments_;
  std::size_t at_ = 0;
  std::size_t inside_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

// A descriptor for the length of one read.
class BulkFile::Borrowed {
 public:
  Borrowed(BulkFile& file, bool direct) : file_(file), direct_(direct) {
    {
      const std::lock_guard lock(file_.mutex_);
      if (direct_) {
        shared_ = file_.direct_.get();
        ++file_.direct_readers_;
        return;
      }
      if (!file_.idle_.empty()) {
        own_ = std::move(file_.idle_.back());
        file_.idle_.pop_back();
        return;
      }
    }
    own_ = file_.open_reader();
  }
  Borrowed(Borrowed&&) = delete;
  ~Borrowed() {
    const std::lock_guard lock(file_.mutex_);
    if (direct_) {
      --file_.direct_readers_;
      file_.close_direct();
    } else if (file_.retired_) {
      own_.close();
      --file_.readers_;
    } else {
      file_.idle_.push_back(std::move(own_));
    }
  }
  int descriptor() const { return direct_ ? shared_ : own_.get(); }

 private:
  BulkFile& file_;
  const bool direct_;
  int shared_ = -1;
  Descriptor own_;
};

BulkFile::~BulkFile() { retire(); }

// Room for it among the idle ones comes first: giving back must not need memory.
Descriptor BulkFile::open_reader() {
  {
    const std::lock_guard lock(mutex_);
    idle_.reserve(readers_ + 1);
    ++readers_;
  }
  try {
    return source_.file()->reopen(0);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --readers_;
    throw;
  }
}

void BulkFile::close_idle() {
  const std::lock_guard lock(mutex_);
  readers_ -= idle_.size();
  idle_.clear();
}

// With the lock held.
void BulkFile::close_direct() {
  if (retired_ && direct_readers_ == 0) direct_.close();
}

void BulkFile::retire() {
  close_idle();
  const std::lock_guard lock(mutex_);
  retired_ = true;
  close_direct();
}

// With the lock held.
void BulkFile::open_direct() {
  direct_tried_ = true;
  if (direct_flag() == 0) return;
  try {
    direct_ = source_.file()->reopen(direct_flag());
  } catch (const Error&) {
    return;  // a filesystem without it, no descriptors left, another file at this path: the other way stays
  }
  alignment_ = direct_alignment(direct_.get());
}

bool BulkFile::can_go_around() {
  const std::lock_guard lock(mutex_);
  if (!direct_tried_) open_direct();
  return alignment_ != 0 && direct_works_.load(std::memory_order_relaxed);
}

bool BulkFile::hot(std::uint64_t begin, std::uint64_t end) {
  const PlainFile* const file = source_.file();
  if (file == nullptr) return source_.view() != nullptr;
  if (cache_ == Cache::around || file->remote()) return false;
  try {
    const auto known = residency(Borrowed(*this, false).descriptor(), begin, end - begin);
    // Direct reads of what is not yet on the disk would have to wait until it is.
    return known && (known->dirty || known->resident >= (end - begin) / kHotOneIn);
  } catch (const Error&) {
    return false;  // the file cannot be opened once more, and so not asked about
  }
}

Way BulkFile::way(std::uint64_t begin, std::uint64_t end) {
  if (hot(begin, end)) return Way::copy;
  const PlainFile* const file = source_.file();
  const bool through = file == nullptr || cache_ == Cache::through || (cache_ == Cache::automatic && file->remote());
  return !through && can_go_around() ? Way::direct : Way::wait;
}

bool BulkFile::read(Way way, std::uint64_t offset, std::span<const Segment> segments, std::uint64_t needed) {
  if (way == Way::direct) return read_descriptor(Borrowed(*this, true).descriptor(), offset, segments, needed, true);
  if (source_.file() != nullptr) {
    std::optional<Borrowed> borrowed;
    try {
      borrowed.emplace(*this, false);
    } catch (const Error&) {
      // No descriptor to be had, or the path leads elsewhere by now: the source may hold what was opened.
    }
    if (borrowed) return read_descriptor(borrowed->descriptor(), offset, segments, needed, false);
  }
  read_source(offset, segments, needed);
  return true;
}

void BulkFile::read_source(std::uint64_t offset, std::span<const Segment> segments, std::uint64_t needed) const {
  std::uint64_t done = 0;
  for (const Segment& segment : segments) {
    if (done >= needed) return;
    source_.read_at(offset - source_.base() + done, segment.data, segment.bytes);
    done += segment.bytes;
  }
}

bool BulkFile::direct_refused(int os_error) {
  if (os_error == EIO) return false;
  // EFAULT and ENOMEM are about this memory and not about the file: device memory cannot be pinned, for one.
  if (os_error == EINVAL || os_error == EOPNOTSUPP) direct_works_.store(false, std::memory_order_relaxed);
  return true;
}

bool BulkFile::read_descriptor(int descriptor, std::uint64_t offset, std::span<const Segment> segments,
                               std::uint64_t needed, bool direct) {
  std::array<iovec, 128> pieces;
  Filling filling(segments);
  while (filling.done() < needed && !filling.finished()) {
    const std::size_t n = filling.next(pieces);
    const std::uint64_t at = offset + filling.done();
    const ssize_t got = read_scattered(descriptor, {pieces.data(), n}, static_cast<off_t>(at));
    if (got > 0) {
      filling.advance(static_cast<std::size_t>(got));
    } else if (got == 0) {
      fail_at(Status::truncated, at, "{} ends at byte {}: it has become shorter since it was opened", shown(source_),
              at);
    } else if (errno != EINTR) {
      if (direct && direct_refused(errno)) return false;
      throw Error{Status::read, errno, at,
                  fmt::format("{}: reading at {}: {}", shown(source_), at, os_error_text(errno))};
    }
  }
  return true;
}

}  // namespace st::io
