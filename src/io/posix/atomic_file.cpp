// SPDX-License-Identifier: Apache-2.0
#include "io/posix/atomic_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "io/posix/file_source.hpp"
#include "io/posix/nameless_file.hpp"
#include "io/posix/space.hpp"
#include "io/posix/temp_file.hpp"
#include "io/posix/write_all.hpp"

namespace st::io {

namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

// None when the path leads elsewhere or nowhere by now, or no descriptor is free: the source may have a mapping.
Descriptor reopen_if_possible(const PlainFile& file) {
  try {
    return file.reopen(0);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void AtomicFile::State::open(const char* path, const CreateOptions& options) {
  options_ = options;
  process_ = getpid();
  target_ = find_target(path);
  if (!options.replace && (target_.kind != Target::Kind::absent || target_.through_link)) {
    fail_os(Status::open, EEXIST, "{}", target_.shown);
  }
  in_order_ = target_.kind == Target::Kind::stream || target_.kind == Target::Kind::descriptor;
  if (in_order_) {
    file_ = open_stream(target_);
    return;
  }
  if (target_.kind == Target::Kind::regular) {
    require_replaceable(target_);
    access_ = access_now();
  }
  open_temp_file();
}

// A process forked meanwhile has a copy of this object, and nothing to remove.
AtomicFile::State::~State() {
  if (temp_name_.empty() || process_ != getpid()) return;
  unlinkat(target_.folder.get(), temp_name_.c_str(), 0);
  unlock_temp_file(file_.get());
}

// ---- the public class ------------------------------------------------------------------------------------------------

AtomicFile AtomicFile::create(const char* path, const CreateOptions& options) {
  AtomicFile file;
  file.state_ = std::make_unique<State>();
  file.state_->open(path, options);
  file.in_order_ = file.state_->in_order();
  return file;
}

AtomicFile::AtomicFile() = default;
AtomicFile::AtomicFile(AtomicFile&& other) noexcept = default;
AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept = default;
AtomicFile::~AtomicFile() = default;

void AtomicFile::set_size(std::uint64_t size) const { state_->set_size(size); }
void AtomicFile::reserve(std::uint64_t size) const { state_->reserve(size); }
void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t n) const {
  state_->write_at(offset, data, n);
}
void AtomicFile::copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const {
  state_->copy_at(offset, source, from, n);
}
void AtomicFile::commit() { state_->commit(); }
void AtomicFile::commit_over(const Identity& seen) { state_->commit_over(seen); }

// ---- opening -----------------------------------------------------------------------------------------------------

void AtomicFile::State::open_temp_file() {
  if (options_.sync) {
    folder_to_sync_ = open_file(target_.folder.get(), ".", O_RDONLY | O_DIRECTORY);
    if (!folder_to_sync_) fail_os(Status::open, errno, "the folder of {}", target_.shown);
  }
  // A nameless file that replaces nothing gets its target's name at once; if it cannot, name_temp_file() sweeps.
  file_ = open_nameless(target_.folder.get(), first_mode());
  const bool nameless = static_cast<bool>(file_);
  if (!nameless || access_) sweep_temp_files(target_.folder.get(), target_.name, owner());
  if (!nameless) file_ = create_temp_file(target_.folder.get(), target_.name, first_mode(), temp_name_);
  if (!file_) fail_os(Status::open, errno, "a file beside {}", target_.shown);
  // commit() will need this. A refused fchmod is better known now, and there may be no free descriptor later.
  if (access_ && fchmod(file_.get(), first_mode()) != 0) fail_os(Status::open, errno, "a mode for {}", target_.shown);
  to_close_ = duplicate(file_.get());
  if (!to_close_) fail_os(Status::open, errno, "a file beside {}", target_.shown);
}

// 0600 until commit() if the file replaces another; else 0666, of which the umask takes its part.
mode_t AtomicFile::State::first_mode() const { return access_ ? 0600 : 0666; }

// Another user may have put a file there since find_target(). Nothing of it is handed on, above all not its owner.
std::optional<Access> AtomicFile::State::access_now() const {
  std::optional<Access> now = access_of(target_.folder.get(), target_.name);
  if (now) require_own(target_, now->owner);
  return now;
}

// Of the file that is replaced, or will be made.
uid_t AtomicFile::State::owner() const { return access_ ? access_->owner : geteuid(); }

// ---- writing -----------------------------------------------------------------------------------------------------

void AtomicFile::State::set_size(std::uint64_t size) const {
  if (in_order_) return;
  rlimit most{};
  if (size > INT64_MAX || (getrlimit(RLIMIT_FSIZE, &most) == 0 && size > most.rlim_cur)) {
    fail_os(Status::write, EFBIG, "{} of {} bytes", target_.shown, size);
  }
  const int error = set_length(file_.get(), size);
  if (error != 0) fail_os(Status::write, error, "{} of {} bytes", target_.shown, size);
}

void AtomicFile::State::reserve(std::uint64_t size) const {
  if (in_order_ || size == 0) return;
  const int error = take_space(file_.get(), size);
  if (error != 0) fail_os(Status::write, error, "{} of {} bytes", target_.shown, size);
}

void AtomicFile::State::write_at(std::uint64_t offset, const void* data, std::size_t n) const {
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
                formatted("{}: writing {} bytes at {}: {}", target_.shown, n, offset, os_error_text(error))};
  }
}

void AtomicFile::State::copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const {
  const auto* const of_file = dynamic_cast<const FileSource*>(&source);
  if (of_file == nullptr && source.view() != nullptr)
    return write_at(offset, source.view() + from, static_cast<std::size_t>(n));
  if (of_file == nullptr || in_order_) return copy_by_hand(offset, source, from, n);

  const PlainFile* const plain = &of_file->file();
  const std::uint64_t base = of_file->base();
  const Descriptor opened = plain->descriptor() < 0 ? reopen_if_possible(*plain) : Descriptor();
  const int file = opened ? opened.get() : plain->descriptor();
  // A duplicate shares its position with the caller's descriptor.
  const bool may_seek = file >= 0 && !plain->path().empty();
  const std::uint64_t end = base + from + n;
  const std::uint64_t shift = offset - base - from;  // modulo 2^64
  for (std::uint64_t at = base + from; at < end;) {
    const Extent stored = may_seek ? stored_bytes(file, at, end) : Extent{at, end};
    const std::uint64_t bytes = stored.end - stored.begin;
    const std::uint64_t done =
        file < 0 ? 0 : copy_in_kernel(file, stored.begin, file_.get(), stored.begin + shift, bytes);
    const std::uint64_t rest = stored.begin + done;
    copy_by_hand(rest + shift, source, rest - base, bytes - done);
    at = stored.end;
  }
}

void AtomicFile::State::copy_by_hand(std::uint64_t offset, const Source& source, std::uint64_t from,
                                     std::uint64_t n) const {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(n, kCopyBytes)));
  while (n > 0) {
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(n, kCopyBytes));
    source.read_at(from, buffer.data(), some);
    write_at(offset, buffer.data(), some);
    offset += some;
    from += some;
    n -= some;
  }
}

}  // namespace st::io
