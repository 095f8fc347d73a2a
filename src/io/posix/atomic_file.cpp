// Atomic files of POSIX systems: the bytes go to a temporary file, which commit() links or renames to the target's
// name. Streams (FIFOs, devices, descriptors) are written directly.
// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "io/edited_file.hpp"
#include "io/posix/edit.hpp"
#include "io/posix/file_source.hpp"
#include "io/posix/system.hpp"
#include "io/posix/target.hpp"
#include "io/posix/temp_file.hpp"

namespace st::io {

namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

// Returns no descriptor if the path no longer leads to the file, or no descriptor is free. The source may still have a
// mapping.
Descriptor reopen_if_possible(const RegularFile& file) {
  try {
    return file.reopen(0);
  } catch (const Error&) {
    return {};
  }
}

// Errors that mean "not permitted" or "not supported", not a disk error: a sandbox, a security module, no /proc.
bool is_refusal(int error) {
  return error == EPERM || error == EACCES || error == ENOSYS || error == ENOENT || error == EOPNOTSUPP ||
         error == EINVAL || error == EXDEV || error == ELOOP;
}

}  // namespace

class AtomicFile::State {
 public:
  State() = default;
  State(State&&) = delete;
  ~State();

  void open(const char* path, const CreateOptions& options);
  bool in_order() const { return in_order_; }
  void require_own_process() const;
  void set_size(std::uint64_t size) const;
  void reserve(std::uint64_t size) const;
  void write_at(std::uint64_t offset, const void* data, std::size_t n) const;
  void copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const;
  void commit(const std::function<void()>& last_look);
  void commit_over(const EditedFile& edited);

 private:
  void open_temp_file();
  std::optional<Identity> target_now() const;
  bool replaces() const;
  mode_t first_mode() const;
  std::optional<Access> access_now() const;
  uid_t owner() const;
  void copy_by_hand(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const;
  void finish_stream();
  bool take_over_access();
  void finish_bytes(int error_of_closing);
  void publish(const std::function<void()>& last_look);
  void name_temp_file();
  void require_unchanged() const;
  void sync_directory() const;

  Target target_;
  CreateOptions options_;
  Descriptor file_;
  Descriptor to_close_;  // a duplicate descriptor, because network filesystems report errors at close
  Descriptor directory_to_sync_;
  std::optional<Access> access_;        // of the old file; none: the umask decides
  std::optional<Access> given_;         // to the new file
  const EditedFile* edited_ = nullptr;  // the only file that may be replaced; nullptr: any
  std::optional<Identity> seen_;        // of the target, by open() if options_.only_unchanged
  std::string temp_name_;               // of the temporary file; empty: none
  pid_t process_ = 0;                   // the process that made this object
  bool in_order_ = false;
  mutable std::uint64_t position_ = 0;  // of a stream
};

// ---- opening -------------------------------------------------------------------------------------------------------

void AtomicFile::State::open(const char* path, const CreateOptions& options) {
  options_ = options;
  process_ = getpid();
  target_ = find_target(path, options.replace_link);
  if (!options.replace && (target_.kind != Target::Kind::absent || target_.through_link)) {
    fail_os(Status::open, EEXIST, "{}", target_.shown);
  }
  in_order_ = target_.kind == Target::Kind::stream || target_.kind == Target::Kind::descriptor;
  if (in_order_) {
    if (!options.streams) fail(Status::open, "{} is not a file that can be replaced", target_.shown);
    file_ = open_stream(target_);
    return;
  }
  if (target_.kind != Target::Kind::absent) require_replaceable(target_);
  if (target_.kind == Target::Kind::regular) access_ = access_now();
  if (options_.only_unchanged) {
    // publish() opens the file for writing, to lock it. On overlayfs the first such opening copies the file and changes
    // its times, so it must not be the one in publish().
    if (replaces()) (void)open_file(target_.directory.get(), target_.name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    seen_ = target_now();
  }
  open_temp_file();
}

// A forked process has a copy of this object. It must not remove the parent's file.
AtomicFile::State::~State() {
  if (temp_name_.empty() || process_ != getpid()) return;
  unlinkat(target_.directory.get(), temp_name_.c_str(), 0);
}

void AtomicFile::State::open_temp_file() {
  if (options_.sync) {
    directory_to_sync_ = open_file(target_.directory.get(), ".", O_RDONLY | O_DIRECTORY);
    if (!directory_to_sync_) fail_os(Status::open, errno, "the directory of {}", target_.shown);
  }
  if (replaces()) require_no_append_only(target_);
  // An unnamed file that replaces nothing is linked directly to the target's name, so it needs no sweep. If linking
  // fails, name_temp_file() sweeps.
  file_ = open_nameless(target_.directory.get(), first_mode());
  const bool nameless = static_cast<bool>(file_);
  if (!nameless || replaces()) sweep_temp_files(target_.directory.get(), target_.name, owner());
  if (!nameless && !replaces()) require_no_append_only(target_);
  if (!nameless) file_ = create_temp_file(target_.directory.get(), target_.name, first_mode(), temp_name_);
  if (!file_) fail_os(Status::open, errno, "a file next to {}", target_.shown);
  // commit() needs both of these. Report errors before the first byte is written.
  if (access_ && fchmod(file_.get(), first_mode()) != 0) fail_os(Status::open, errno, "the mode for {}", target_.shown);
  to_close_ = duplicate(file_.get());
  if (!to_close_) fail_os(Status::open, errno, "a file next to {}", target_.shown);
}

// Whether commit() replaces a file or a link.
bool AtomicFile::State::replaces() const { return access_ || target_.kind == Target::Kind::link; }

// A replacement is 0600 until commit(), and stays 0600 if it replaces a link. A new file is 0666, minus the umask.
mode_t AtomicFile::State::first_mode() const { return replaces() ? 0600 : 0666; }

// Another user may have put a file, link or FIFO there since find_target(). Do not replace it, and do not take over its
// access rights, above all its owner. If a link or FIFO is there now, the rights of the old file are lost, so fail.
std::optional<Access> AtomicFile::State::access_now() const {
  struct stat there {};
  if (fstatat(target_.directory.get(), target_.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
    require_own(target_, there.st_uid);
    if (target_.kind == Target::Kind::regular && !S_ISREG(there.st_mode)) {
      fail(Status::state, "{} was a regular file when its save began, but is not any more", target_.shown);
    }
  }
  std::optional<Access> now = access_of(target_.directory.get(), target_.name);
  if (now) require_own(target_, now->owner);
  return now;
}

// The owner of the old file, or of a new one.
uid_t AtomicFile::State::owner() const { return access_ ? access_->owner : geteuid(); }

// ---- writing -------------------------------------------------------------------------------------------------------

// A forked child shares the file, which the parent may have committed by now.
void AtomicFile::State::require_own_process() const {
  if (process_ == getpid()) return;
  fail(Status::state, "{} was begun by process {}; no other process can write it", target_.shown, process_);
}

void AtomicFile::State::set_size(std::uint64_t size) const {
  require_own_process();
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
  require_own_process();
  int error = 0;
  if (!in_order_) {
    error = write_all_at(file_.get(), offset, data, n);
  } else if (offset != position_) {
    fail_at(Status::state, offset, "{} is written in order: expected offset {}, got {}", target_.shown, position_,
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
  require_own_process();
  const auto* const of_file = source.as_file();
  if (of_file == nullptr && source.view() != nullptr)
    return write_at(offset, source.view() + from, static_cast<std::size_t>(n));
  if (of_file == nullptr || in_order_) return copy_by_hand(offset, source, from, n);

  const RegularFile* const plain = &of_file->file();
  const std::uint64_t base = of_file->base();
  const Descriptor opened = plain->descriptor() < 0 ? reopen_if_possible(*plain) : Descriptor();
  const int file = opened ? opened.get() : plain->descriptor();
  // A duplicate descriptor shares its file position with the caller's.
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

// ---- committing ----------------------------------------------------------------------------------------------------

void AtomicFile::State::commit(const std::function<void()>& last_look) {
  require_own_process();
  if (in_order_) {
    if (last_look) last_look();
    return finish_stream();
  }
  take_over_access();
  finish_bytes(to_close_.close() == 0 ? 0 : errno);
  publish(last_look);
  temp_name_.clear();
  unlock_temp_file(file_.get());
  file_.close();
  sync_directory();
}

void AtomicFile::State::commit_over(const EditedFile& edited) {
  edited_ = &edited;
  commit({});
}

void AtomicFile::State::finish_stream() {
  if (options_.sync) {
    const int error = sync_now(file_.get());
    const bool cannot = error == EINVAL || error == EROFS || error == ENOTSUP;  // pipes and terminals
    if (error != 0 && !cannot) fail_os(Status::write, error, "{}: syncing", target_.shown);
  }
  if (file_.close() != 0 && errno != EINTR) fail_os(Status::write, errno, "{}: closing", target_.shown);
}

// Copies the access rights of the file that is there now: another process may have restricted them since create(), or
// since the last call. Returns whether the new file's rights have changed.
bool AtomicFile::State::take_over_access() {
  if (std::optional<Access> now = access_now()) access_ = std::move(now);
  if (access_ == given_) return false;
  const int error = give_access(file_.get(), *access_);
  if (error != 0) fail_os(Status::write, error, "the mode {:o} for {}", access_->mode, target_.shown);
  given_ = access_;
  return true;
}

// Reports all write errors before the old file is touched.
//
// Without `sync`, starts writing back the bytes of a replacement before the rename. ext4 normally does that itself, but
// not for preallocated blocks: after a power failure seven seconds later, the new name led to zeros, and the old file
// was gone.
void AtomicFile::State::finish_bytes(int error_of_closing) {
  if (!options_.sync && replaces()) begin_writing_back(file_.get());
  const int error = options_.sync ? sync_now(file_.get()) : 0;
  if (error != 0) fail_os(Status::write, error, "{}: syncing", target_.shown);
  if (error_of_closing != 0 && error_of_closing != EINTR) {
    fail_os(Status::write, error_of_closing, "{}: closing", target_.shown);
  }
}

void AtomicFile::State::publish(const std::function<void()>& last_look) {
  if (temp_name_.empty()) {
    // There is no file to replace, so linkat() names the file. Another process may take the name first.
    const bool direct = !replaces() && edited_ == nullptr;
    if (direct && last_look) last_look();
    if (direct && link_nameless(file_.get(), target_.directory.get(), target_.name) == 0) return;
    const int error = direct ? errno : 0;
    if (error == EEXIST) {  // before others can open it by a name
      take_over_access();
      finish_bytes(0);
    } else if (error != 0 && !is_refusal(error)) {
      fail_os(Status::write, error, "{}", target_.shown);
    }
    require_no_append_only(target_);
    name_temp_file();
  }
  // The lock prevents saves between an edit's last check of its target and its rename. It is exclusive, so it also
  // keeps two saves apart. With a shared lock, the first save could replace the old file, an edit could lock the new
  // one, and the second save would rename over it during the edit. A save that does not get the lock within two seconds
  // renames without it. If an edit then renames, the save is lost. A save fails if there is no descriptor or memory for
  // the lock.
  //
  // If there is no file to lock, the first attempt must not replace one. If another process has created a file in the
  // meantime, an edit may have locked it, so the second attempt takes that file's lock.
  for (const bool first : {true, false}) {
    // Another process may have changed the rights during the first sync. The second sync may take long too, so it comes
    // before the lock.
    if (options_.sync && take_over_access()) finish_bytes(0);
    const EditLock lock =
        edited_ != nullptr ? EditLock::of_edited(*edited_) : EditLock::of_name(target_.directory.get(), target_.name);
    require_unchanged();
    const bool is_exhausted = lock.error() == EMFILE || lock.error() == ENFILE || lock.error() == ENOMEM;
    const bool is_absent = lock.error() == ENOENT;  // or a link, which has no lock
    if (edited_ != nullptr || (seen_ && !is_absent) || is_exhausted) lock.require(target_.shown);
    take_over_access();  // again, because waiting for the lock may have taken long
    if (last_look) last_look();
    require_unchanged();  // as late as possible, because a save without the lock may have replaced the file
    const bool replace = options_.replace && !(first && is_absent);
    const int error = rename_temp_file(target_.directory.get(), temp_name_, target_.name, replace);
    if (error == 0) return;
    if (replace == options_.replace || (error != EEXIST && !is_refusal(error))) {
      fail_os(Status::write, error, "{}", target_.shown);
    }
  }
}

// Gives the temporary file a name. If that is impossible, copies its bytes to a named one.
void AtomicFile::State::name_temp_file() {
  temp_name_ = link_temp_file(file_.get(), target_.directory.get(), target_.name);
  if (!temp_name_.empty()) return;
  if (!is_refusal(errno)) fail_os(Status::write, errno, "a file next to {}", target_.shown);
  sweep_temp_files(target_.directory.get(), target_.name, owner());
  Descriptor named = create_temp_file(target_.directory.get(), target_.name, first_mode(), temp_name_);
  if (!named) fail_os(Status::write, errno, "a file next to {}", target_.shown);
  Descriptor closing = duplicate(named.get());
  if (!closing) fail_os(Status::write, errno, "a file next to {}", target_.shown);
  std::swap(file_, named);
  RegularFile nameless = RegularFile::duplicate(named.get());
  const std::uint64_t size = nameless.size();
  set_size(size);
  copy_at(0, FileSource(std::move(nameless), 0, size), 0, size);
  given_.reset();
  take_over_access();
  finish_bytes(closing.close() == 0 ? 0 : errno);
}

std::optional<Identity> AtomicFile::State::target_now() const {
  struct stat now {};
  if (fresh_status(target_.directory.get(), target_.name.c_str(), now) != 0) return std::nullopt;
  return identity_of(now);
}

void AtomicFile::State::require_unchanged() const {
  if (edited_ == nullptr && !options_.only_unchanged) return;
  const std::optional<Identity> now = target_now();
  if (edited_ != nullptr ? now == edited_->seen() : now == seen_) return;
  fail(Status::state, "{} was {} by another process in the meantime", target_.shown,
       now ? "changed or replaced" : "removed");
}

void AtomicFile::State::sync_directory() const {
  if (!options_.sync) return;
  const int error = sync_directory_now(directory_to_sync_.get());
  if (error != 0) {
    fail_os(Status::write, error, "{} is complete and in place, but its directory could not be synced", target_.shown);
  }
}

// ---- the public class ----------------------------------------------------------------------------------------------

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
void AtomicFile::commit(const std::function<void()>& last_look) { state_->commit(last_look); }
void AtomicFile::commit_over(const EditedFile& edited) { state_->commit_over(edited); }

}  // namespace st::io
