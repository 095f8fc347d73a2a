// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "io/posix/atomic_file.hpp"
#include "io/posix/edit_lock.hpp"
#include "io/posix/file_source.hpp"
#include "io/posix/identity.hpp"
#include "io/posix/nameless_file.hpp"
#include "io/posix/temp_file.hpp"
#include "io/posix/write_all.hpp"

namespace st::io {

namespace {

// Errors of permission or support, not of the disk: a sandbox, a security module, no /proc.
bool is_refusal(int error) {
  return error == EPERM || error == EACCES || error == ENOSYS || error == ENOENT || error == EOPNOTSUPP ||
         error == EINVAL || error == EXDEV || error == ELOOP;
}

}  // namespace

void AtomicFile::State::commit() {
  if (process_ != getpid()) {
    fail(Status::state, "{} was begun by process {}, which alone can finish it", target_.shown, process_);
  }
  if (in_order_) return finish_stream();
  take_over_access();
  finish_bytes(to_close_.close() == 0 ? 0 : errno);
  publish();
  temp_name_.clear();
  unlock_temp_file(file_.get());
  file_.close();
  sync_folder();
}

void AtomicFile::State::commit_over(const Identity& seen) {
  only_over_ = seen;
  commit();
}

void AtomicFile::State::finish_stream() {
  if (options_.sync) {
    const int error = sync_now(file_.get());
    const bool cannot = error == EINVAL || error == EROFS;  // pipes and terminals have nothing to sync
    if (error != 0 && !cannot) fail_os(Status::write, error, "{}: syncing", target_.shown);
  }
  if (file_.close() != 0 && errno != EINTR) fail_os(Status::write, errno, "{}: closing", target_.shown);
}

// The access of the file that is there now: somebody may have narrowed it since create().
void AtomicFile::State::take_over_access() {
  if (std::optional<Access> now = access_now()) access_ = std::move(now);
  const int error = access_ ? give_access(file_.get(), *access_) : 0;
  if (error != 0) fail_os(Status::write, error, "the mode {:o} for {}", access_->mode, target_.shown);
}

// All errors that the bytes can still bring come before the old file is touched.
void AtomicFile::State::finish_bytes(int error_of_closing) {
  const int error = options_.sync ? sync_now(file_.get()) : 0;
  if (error != 0) fail_os(Status::write, error, "{}: syncing", target_.shown);
  if (error_of_closing != 0 && error_of_closing != EINTR) {
    fail_os(Status::write, error_of_closing, "{}: closing", target_.shown);
  }
}

void AtomicFile::State::publish() {
  if (temp_name_.empty()) {
    // There is no file to replace: linkat() gives the file its name. Another process may have taken the name first.
    const bool direct = !access_ && !only_over_;
    if (direct && link_nameless(file_.get(), target_.folder.get(), target_.name) == 0) return;
    const int error = direct ? errno : 0;
    if (error == EEXIST) {
      take_over_access();
      finish_bytes(0);
    } else if (error != 0 && !is_refusal(error)) {
      fail_os(Status::write, error, "{}", target_.shown);
    }
    name_temp_file();
  }
  // The lock keeps saves out between an edit's last look at its target and its rename. It is exclusive among saves too:
  // of two saves with a shared lock on the old file, the second would rename over an edit's file without its lock.
  // A save that cannot have the lock within two seconds goes ahead: it replaces whatever is there. An edit that renames
  // in that instant then undoes the save. Without a descriptor to lock, a save fails.
  const EditLock lock = EditLock::of_name(target_.folder.get(), target_.name, /*exclusive=*/true);
  require_unchanged();
  const bool no_descriptor = lock.error() == EMFILE || lock.error() == ENFILE;
  if (only_over_ || no_descriptor) lock.require(target_.shown);
  take_over_access();   // once more, for the syncing may have taken long
  require_unchanged();  // as late as possible: a save without the lock may have come in between
  const int error = rename_temp_file(target_.folder.get(), temp_name_, target_.name, options_.replace);
  if (error != 0) fail_os(Status::write, error, "{}", target_.shown);
}

// Where a nameless file may be made but not named, its bytes go to another that has a name.
void AtomicFile::State::name_temp_file() {
  temp_name_ = link_temp_file(file_.get(), target_.folder.get(), target_.name);
  if (!temp_name_.empty()) return;
  if (!is_refusal(errno)) fail_os(Status::write, errno, "a file beside {}", target_.shown);
  sweep_temp_files(target_.folder.get(), target_.name, owner());
  Descriptor named = create_temp_file(target_.folder.get(), target_.name, first_mode(), temp_name_);
  if (!named) fail_os(Status::write, errno, "a file beside {}", target_.shown);
  Descriptor closing = duplicate(named.get());
  if (!closing) fail_os(Status::write, errno, "a file beside {}", target_.shown);
  std::swap(file_, named);
  PlainFile nameless = PlainFile::duplicate(named.get());
  const std::uint64_t size = nameless.size();
  set_size(size);
  copy_at(0, FileSource(std::move(nameless), 0, size), 0, size);
  take_over_access();
  finish_bytes(closing.close() == 0 ? 0 : errno);
}

void AtomicFile::State::require_unchanged() const {
  if (!only_over_) return;
  struct stat now {};
  const bool there = fstatat(target_.folder.get(), target_.name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && identity_of(now) == *only_over_) return;
  fail(Status::state, "{} was {} by somebody else meanwhile", target_.shown, there ? "changed or replaced" : "removed");
}

void AtomicFile::State::sync_folder() const {
  if (!options_.sync) return;
  const int error = sync_now(folder_to_sync_.get());
  if (error != 0) {
    fail_os(Status::write, error, "{} is complete and in its place, but its folder could not be synced", target_.shown);
  }
}

}  // namespace st::io
