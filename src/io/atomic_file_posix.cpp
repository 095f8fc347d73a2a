// Where /proc is there, a nameless file gets its name through it: the other way, AT_EMPTY_PATH, wants a capability
// on all but the newest kernels.
// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "io/sibling.hpp"
#include "io/transfer.hpp"

namespace st::io {

namespace {

constexpr mode_t kNewMode = 0666;  // less the umask
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

// -1 when the path leads elsewhere or nowhere by now, or no descriptor is free: the source may have a mapping.
int reopen_if_possible(const PlainFile& file) {
  try {
    return file.reopen(0);
  } catch (const Error&) {
    return -1;
  }
}

std::string path_of(const Descriptor& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

}  // namespace

AtomicFile AtomicFile::create(const char* path, const CreateOptions& options) {
  AtomicFile file;
  file.options_ = options;
  file.target_ = find_target(path);
  const Target& target = file.target_;
  if (!options.replace && (target.kind != Target::Kind::absent || target.through_link)) {
    fail_os(Status::open, EEXIST, "{}", target.shown);
  }
  if (target.kind == Target::Kind::stream || target.kind == Target::Kind::descriptor) {
    file.open_stream();
  } else {
    file.open_sibling();
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  drop();
  target_ = std::move(other.target_);
  options_ = other.options_;
  file_ = std::move(other.file_);
  folder_to_sync_ = std::move(other.folder_to_sync_);
  only_over_ = other.only_over_;
  sibling_ = std::exchange(other.sibling_, {});
  in_order_ = other.in_order_;
  position_ = other.position_;
  return *this;
}

AtomicFile::~AtomicFile() { drop(); }

void AtomicFile::drop() noexcept {
  if (!sibling_.empty()) unlinkat(target_.folder.get(), sibling_.c_str(), 0);
  sibling_.clear();
  file_.close();
}

// ---- opening -----------------------------------------------------------------------------------------------------

void AtomicFile::open_stream() {
  in_order_ = true;
  if (target_.kind == Target::Kind::descriptor) {
    file_ = Descriptor(fcntl(std::stoi(target_.name), F_DUPFD_CLOEXEC, 0));
  } else {
    file_ = Descriptor(openat(target_.folder.get(), target_.name.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  }
  if (!file_) fail_os(Status::open, errno, "{}", target_.shown);
}

void AtomicFile::open_sibling() {
  const bool replaces = target_.kind == Target::Kind::regular;
  // A rename asks the folder only. A file made read-only is meant to stay as it is.
  if (replaces && faccessat(target_.folder.get(), target_.name.c_str(), W_OK, AT_EACCESS) != 0) {
    fail_os(Status::open, errno, "{}", target_.shown);
  }
  if (options_.sync) {
    folder_to_sync_ = Descriptor(openat(target_.folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_to_sync_) fail_os(Status::open, errno, "the folder of {}", target_.shown);
  }
  sweep_siblings(target_.folder.get(), target_.name);
  const mode_t mode = replaces ? target_.status.st_mode & 0777 : kNewMode;
  if (!open_nameless(mode)) open_named(mode);
  if (replaces) keep_owner_and_mode();
}

// false: this folder's filesystem has no nameless files, or nothing could name one later.
bool AtomicFile::open_nameless(mode_t mode) {
#if defined(O_TMPFILE)
  Descriptor file(openat(target_.folder.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  if (!file || access(path_of(file).c_str(), F_OK) != 0) return false;
  lock_sibling(file.get());
  file_ = std::move(file);
  return true;
#else
  return false;
#endif
}

void AtomicFile::open_named(mode_t mode) {
  file_ = create_sibling(target_.folder.get(), target_.name, mode, sibling_);
  if (!file_) fail_os(Status::open, errno, "a file beside {}", target_.shown);
}

// Who may not give the file away keeps it, and then the group's rights are what everybody has: they were meant for
// another group.
void AtomicFile::keep_owner_and_mode() const {
  struct stat now {};
  if (fstat(file_.get(), &now) != 0) fail_os(Status::open, errno, "a file beside {}", target_.shown);
  const struct stat& old = target_.status;
  mode_t mode = old.st_mode & 0777;
  if (now.st_uid != old.st_uid || now.st_gid != old.st_gid) {
    const bool given = fchown(file_.get(), old.st_uid, old.st_gid) == 0 ||
                       fchown(file_.get(), static_cast<uid_t>(-1), old.st_gid) == 0;
    if (!given && now.st_gid != old.st_gid) mode = (mode & ~0070U) | (mode & 0007U) << 3;
  }
  if ((now.st_mode & 07777) != mode && fchmod(file_.get(), mode) != 0) {
    fail_os(Status::open, errno, "the mode {:o} for {}", mode, target_.shown);
  }
}

// ---- writing -----------------------------------------------------------------------------------------------------

void AtomicFile::set_size(std::uint64_t size) const {
  if (in_order_) return;
  rlimit most{};
  if (size > INT64_MAX || (getrlimit(RLIMIT_FSIZE, &most) == 0 && size > most.rlim_cur)) {
    fail_os(Status::write, EFBIG, "{} of {} bytes", target_.shown, size);
  }
  while (ftruncate(file_.get(), static_cast<off_t>(size)) != 0) {
    if (errno != EINTR) fail_os(Status::write, errno, "{} of {} bytes", target_.shown, size);
  }
}

void AtomicFile::reserve(std::uint64_t size) const {
#if defined(__linux__)
  while (!in_order_ && size > 0 && fallocate(file_.get(), 0, 0, static_cast<off_t>(size)) != 0) {
    if (errno == EINTR) continue;
    const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
    if (full) fail_os(Status::write, errno, "{} of {} bytes", target_.shown, size);
    return;  // not every filesystem can
  }
#else
  static_cast<void>(size);
#endif
}

void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t n) const {
  int error = 0;
  if (!in_order_) {
    error = write_all_at(file_.get(), offset, data, n);
  } else if (offset != position_) {
    fail_at(Status::state, offset, "{} takes its bytes in order: {} come next, not {}", target_.shown, position_,
            offset);
  } else {
    error = write_all(file_.get(), data, n);
    position_ += n;
  }
  if (error != 0) {
    throw Error{Status::write, error, offset,
                fmt::format("{}: writing {} bytes at {}: {}", target_.shown, n, offset, os_error_text(error))};
  }
}

void AtomicFile::copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const {
  const PlainFile* plain = source.file();
  if (plain == nullptr && source.view() != nullptr) return write_at(offset, source.view() + from, n);
  if (plain == nullptr || in_order_) return copy_by_hand(offset, source, from, n);

  const Descriptor opened(plain->descriptor() < 0 ? reopen_if_possible(*plain) : -1);
  const int file = opened ? opened.get() : plain->descriptor();
  // A duplicate shares its position with the caller's descriptor.
  const bool may_seek = file >= 0 && !plain->path().empty();
  const std::uint64_t end = source.base() + from + n;
  const std::uint64_t shift = offset - source.base() - from;  // modulo 2^64
  for (std::uint64_t at = source.base() + from; at < end;) {
    const Extent stored = may_seek ? stored_bytes(file, at, end) : Extent{at, end};
    const std::uint64_t bytes = stored.end - stored.begin;
    const std::uint64_t done =
        file < 0 ? 0 : copy_in_kernel(file, stored.begin, file_.get(), stored.begin + shift, bytes);
    const std::uint64_t rest = stored.begin + done;
    copy_by_hand(rest + shift, source, rest - source.base(), bytes - done);
    at = stored.end;
  }
}

void AtomicFile::copy_by_hand(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(n, kCopyBytes));
  while (n > 0) {
    const std::size_t some = std::min<std::uint64_t>(n, kCopyBytes);
    source.read_at(from, buffer.data(), some);
    write_at(offset, buffer.data(), some);
    offset += some;
    from += some;
    n -= some;
  }
}

// ---- committing --------------------------------------------------------------------------------------------------

void AtomicFile::commit() {
  finish_bytes();
  if (in_order_) return;
  publish();
  sibling_.clear();
  file_.close();
  sync_folder();
}

void AtomicFile::commit_over(const Identity& seen) {
  only_over_ = seen;
  commit();
}

// All errors that the bytes can still bring come before the old file is touched.
void AtomicFile::finish_bytes() {
  if (options_.sync) {
    const int error = sync_now(file_.get());
    const bool cannot = in_order_ && (error == EINVAL || error == EROFS);  // pipes and terminals have nothing to sync
    if (error != 0 && !cannot) fail_os(Status::write, error, "{}: syncing", target_.shown);
  }
  const int error = in_order_ ? (file_.close() == 0 || errno == EINTR ? 0 : errno) : errors_of_closing(file_.get());
  if (error != 0) fail_os(Status::write, error, "{}: closing", target_.shown);
}

void AtomicFile::publish() {
  if (sibling_.empty()) {
    // Without a file to replace, the name comes with the link itself. Somebody may have been faster.
    const bool direct = target_.kind == Target::Kind::absent && !only_over_;
    if (direct && link_as(file_.get(), target_.folder.get(), target_.name) == 0) return;
    if (direct && (errno != EEXIST || !options_.replace)) fail_os(Status::write, errno, "{}", target_.shown);
    sibling_ = link_sibling(file_.get(), target_.folder.get(), target_.name);
    if (sibling_.empty()) fail_os(Status::write, errno, "a file beside {}", target_.shown);
  }
  require_unchanged();
  const int error = rename_sibling(target_.folder.get(), sibling_, target_.name, options_.replace);
  if (error != 0) fail_os(Status::write, error, "{}", target_.shown);
}

void AtomicFile::require_unchanged() const {
  if (!only_over_) return;
  struct stat now {};
  const bool there = fstatat(target_.folder.get(), target_.name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && identity_of(now) == *only_over_) return;
  fail(Status::state, "{} was {} by somebody else meanwhile", target_.shown, there ? "changed or replaced" : "removed");
}

void AtomicFile::sync_folder() const {
  if (!options_.sync) return;
  const int error = sync_now(folder_to_sync_.get());
  if (error != 0) {
    fail_os(Status::write, error, "{} is complete and in its place, but its folder could not be synced", target_.shown);
  }
}

}  // namespace st::io
