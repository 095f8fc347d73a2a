// SPDX-License-Identifier: Apache-2.0
#include "io/edited_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "io/posix/edit_lock.hpp"
#include "io/posix/file_source.hpp"
#include "io/posix/identity.hpp"
#include "io/posix/target.hpp"
#include "io/posix/write_all.hpp"

namespace st::io {

namespace {

constexpr int kMostAttempts = 20;

// A save holds its file's lock for a moment after the file got its name. An editor keeps it longer.
constexpr std::chrono::milliseconds kPatience(500);

// Without its lock there is no edit, except on filesystems that have no locks.
void lock_alone(int file, const std::string& shown) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (flock(file, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (is_without_locks(error)) return;
    const bool may_wait = error == EWOULDBLOCK || error == EINTR;
    if (!may_wait || std::chrono::steady_clock::now() > end) {
      if (error == EWOULDBLOCK) fail(Status::state, "{} is being edited by somebody else", shown);
      fail_os(Status::open, error, "{} cannot be locked", shown);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Finds what a save to this path would replace. Throws for a file of another user in a sticky directory, and for an open
// descriptor: no new file can take its file's place, and writing to it would overwrite what is still being read. Nothing
// if there is no file now, though there was one before.
std::optional<Target> target_of_edit(const char* path, bool there_before) {
  Target target = find_target(path);
  switch (target.kind) {
    case Target::Kind::descriptor:
      fail(Status::open, "{} is an open descriptor: edit its file by the file's path", target.shown);
    case Target::Kind::stream: fail(Status::open, "{} is not a regular file", target.shown);
    case Target::Kind::absent:
      if (!there_before) fail_os(Status::open, ENOENT, "{}", target.shown);
      return std::nullopt;
    case Target::Kind::regular: break;
  }
  require_own(target, target.status.st_uid);
  return target;
}

// Nothing if it is another file by now, or none.
std::optional<PlainFile> opened_if_same(const char* path, const Identity& seen) {
  try {
    PlainFile file = PlainFile::open(path);
    if (file.identity().same_file(seen)) return file;
  } catch (const Error& error) {
    if (error.os_error != ENOENT) throw;
  }
  return std::nullopt;
}

}  // namespace

// The lock is not left to the closing: a forked child may have a copy of the descriptor.
struct EditedFile::State {
  std::string shown;
  std::unique_ptr<Source> source;
  Descriptor file;
  Identity seen;

  State() = default;
  State(State&&) = delete;
  ~State() {
    if (file) flock(file.get(), LOCK_UN);
  }
};

EditedFile::EditedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
EditedFile::EditedFile(EditedFile&& other) noexcept = default;
EditedFile::~EditedFile() = default;

std::unique_ptr<Source> EditedFile::take_source() { return std::move(state_->source); }
const Identity& EditedFile::seen() const { return state_->seen; }

EditedFile EditedFile::open(const char* path) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    auto edited = std::make_unique<State>();
    edited->shown = in_quotes(path);
    const std::optional<Target> target = target_of_edit(path, attempt > 0);
    if (!target) continue;
    // For writing first: another process's lease on the file then ends at once, and not once for each kind of access.
    edited->file = open_regular(target->folder.get(), target->name.c_str(), O_RDWR | O_NOFOLLOW | O_NOCTTY);
    if (!edited->file && errno == ENOENT) continue;
    if (!edited->file) fail_os(Status::open, errno, "{}", edited->shown);
    lock_alone(edited->file.get(), edited->shown);
    struct stat status {};
    if (fstat(edited->file.get(), &status) != 0) fail_os(Status::open, errno, "{}", edited->shown);
    edited->seen = identity_of(status);
    if (!edited->seen.same_file(identity_of(target->status))) continue;
    // An editor that held the lock a moment ago, or a save, may have put a new file in this one's place.
    std::optional<PlainFile> plain = opened_if_same(path, edited->seen);
    if (!plain) continue;
    const std::uint64_t size = plain->size();
    edited->source = std::make_unique<FileSource>(std::move(*plain), 0, size);
    return EditedFile(std::move(edited));
  }
  fail(Status::state, "{} was replaced each of {} times that it was opened", in_quotes(path), kMostAttempts);
}

EditedFile::Patch EditedFile::patch(std::uint64_t offset, const void* data, std::size_t n, bool sync) {
  const int file = state_->file.get();
  Descriptor to_close = duplicate(file);  // network filesystems report errors when a descriptor is closed
  if (!to_close) fail_os(Status::write, errno, "{}", state_->shown);
  {
    const EditLock alone = EditLock::exclusive(file);
    alone.require(state_->shown);
    if (!alone.held()) return Patch::refused;
    struct stat now {};
    if (fstat(file, &now) != 0 || identity_of(now) != state_->seen) return Patch::changed;
    rlimit limit{};  // beyond it the kernel would write a part of the bytes, and leave half a header
    const bool fits =
        getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || offset + n <= limit.rlim_cur;
    if (const int error = fits ? write_all_at(file, offset, data, n) : EFBIG; error != 0) {
      throw Error{Status::write, error, offset,
                  formatted("{}: writing {} bytes at {}: {}", state_->shown, n, offset, os_error_text(error))};
    }
  }
  int error = sync ? sync_now(file) : 0;
  if (to_close.close() != 0 && errno != EINTR && error == 0) error = errno;
  if (error != 0) {
    fail_os(Status::write, error, "{}: the new header is written but may not reach the disk", state_->shown);
  }
  return Patch::done;
}

}  // namespace st::io
