// The lock that keeps readers, saves and edits apart, and the file that an edit works on.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/edit.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "io/edited_file.hpp"
#include "io/posix/file_source.hpp"
#include "io/posix/target.hpp"

namespace st::io {

namespace {

// Two seconds for another process to finish. Polls instead of blocking, because any process that may read the file
// could block the caller forever.
class Patience {
 public:
  // Sleeps for a moment. Returns false once the time is over.
  bool wait() {
    if (std::chrono::steady_clock::now() > end_) return false;
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, std::chrono::microseconds(2000));
    return true;
  }

 private:
  const std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::chrono::microseconds pause_{20};
};

bool is_temporary(int error) { return error == EAGAIN || error == EINTR; }

// Returns 0 or the errno: EAGAIN if another process holds the lock.
int try_lock(int descriptor, ByteLock kind) {
  const int error = set_byte_lock(descriptor, LockedByte::header, kind);
  return error == EACCES ? EAGAIN : error;
}

bool has_name(int file, int directory, const std::string& name) {
  struct stat here {};
  struct stat there {};
  return fstat(file, &here) == 0 && fstatat(directory, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         identity_of(there).same_file(identity_of(here));
}

// Finds what a save to this path would replace. Throws for a file of another user in a sticky directory, and for an
// open descriptor: no new file can take its file's place, and writing to it would overwrite what is still being read.
// Returns nothing if a file that was there before is gone.
std::optional<Target> target_of_edit(const char* path, bool there_before) {
  Target target = find_target(path);
  switch (target.kind) {
    case Target::Kind::descriptor:
      fail(Status::open, "{} is an open descriptor: use the path of its file instead", target.shown);
    case Target::Kind::stream:
    case Target::Kind::link: fail(Status::open, "{} is not a regular file", target.shown);
    case Target::Kind::absent:
      if (!there_before) fail_os(Status::open, ENOENT, "{}", target.shown);
      return std::nullopt;
    case Target::Kind::regular: break;
  }
  require_own(target, target.status.st_uid);
  return target;
}

}  // namespace

struct EditedFile::State {
  std::string shown;
  std::unique_ptr<Source> source;
  Descriptor directory;
  Descriptor file;
  Identity seen;

  State() = default;
  State(State&&) = delete;
  // Closing the descriptor is not enough: a forked child may have a copy of it.
  ~State() {
    if (file) flock(file.get(), LOCK_UN);
  }

  const char* try_open(const char* path, bool again);
  Descriptor open_directory() const;
};

// ---- the lock ------------------------------------------------------------------------------------------------------

bool is_without_locks(int error) {
  // EINVAL: Linux before 3.15. ENOLCK: a network filesystem whose server has none.
  constexpr std::array kNoLocks{ENOSYS, ENOTSUP, EOPNOTSUPP, EINVAL, ENOLCK};
  return std::find(kNoLocks.begin(), kNoLocks.end(), error) != kNoLocks.end();
}

EditLock EditLock::shared(const RegularFile& file) {
  if (!file.path().empty()) return shared(file.descriptor());
  Descriptor own;
  try {
    own = file.reopen(0);
  } catch (const Error&) {
    return of_descriptor(-1, ByteLock::shared);
  }
  EditLock lock = shared(own.get());
  lock.own_ = std::move(own);
  return lock;
}

EditLock EditLock::shared(int descriptor) { return of_descriptor(descriptor, ByteLock::shared); }

EditLock EditLock::exclusive(int descriptor) { return of_descriptor(descriptor, ByteLock::exclusive); }

EditLock EditLock::of_descriptor(int descriptor, ByteLock kind) {
  EditLock lock;
  Patience patience;
  do {
    lock.error_ = try_lock(descriptor, kind);
  } while (is_temporary(lock.error_) && patience.wait());
  if (lock.error_ == 0) lock.locked_ = descriptor;
  return lock;
}

EditLock EditLock::of_name(int directory, const std::string& name) {
  for (Patience patience;;) {
    EditLock lock = try_name(directory, name);
    if (!is_temporary(lock.error_) || !patience.wait()) return lock;
  }
}

EditLock EditLock::of_edited(const EditedFile& file) { return exclusive(file.state_->file.get()); }

// EAGAIN if another process holds the lock, has a lease on the file, or has replaced the file.
EditLock EditLock::try_name(int directory, const std::string& name) {
  EditLock lock;
  struct stat here {};
  if (fstatat(directory, name.c_str(), &here, AT_SYMLINK_NOFOLLOW) != 0) {
    lock.error_ = errno;
    return lock;
  }
  lock.error_ = ENOENT;
  if (!S_ISREG(here.st_mode)) return lock;
  lock.own_ = open_file(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  lock.error_ = lock.own_ ? try_lock(lock.own_.get(), ByteLock::exclusive) : errno;
  if (lock.error_ != 0) return lock;
  lock.locked_ = lock.own_.get();
  if (!has_name(lock.locked_, directory, name)) {
    lock.unlock();
    lock.error_ = EAGAIN;
  }
  return lock;
}

void EditLock::require(const std::string& shown) const {
  if (held() || is_without_locks(error_)) return;
  if (error_ == EAGAIN) fail_os(Status::state, error_, "{} is locked by another process", shown);
  fail_os(Status::write, error_, "{} cannot be locked", shown);
}

// Closing the descriptor is not enough: a forked child may have a copy of it.
void EditLock::unlock() {
  if (locked_ >= 0) set_byte_lock(locked_, LockedByte::header, ByteLock::none);
  locked_ = -1;
}

// ---- the edited file -----------------------------------------------------------------------------------------------

// Returns nullptr, or what another process is doing to the file.
const char* EditedFile::State::try_open(const char* path, bool again) {
  constexpr const char* kReplaced = "keeps being replaced by another process";
  constexpr const char* kRemoved = "was removed by another process";
  shown = in_quotes(path);
  std::optional<Target> target = target_of_edit(path, again);
  if (!target) return kRemoved;
  file = open_regular(target->directory.get(), target->name.c_str(), O_RDWR | O_NOFOLLOW | O_NOCTTY);
  if (!file && errno == ENOENT) return kRemoved;
  if (!file && errno == ELOOP) return kReplaced;  // by a symbolic link
  if (!file) fail_os(Status::open, errno, "{}", shown);
  // Without its lock there is no edit, except on filesystems that have no locks. A save holds its file's lock for a
  // moment after the file got its name.
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && !is_without_locks(errno)) {
    if (errno == EWOULDBLOCK || errno == EINTR) return "is being edited by another process";
    fail_os(Status::open, errno, "{} cannot be locked", shown);
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail_os(Status::open, errno, "{}", shown);
  seen = identity_of(status);
  if (!seen.same_file(identity_of(target->status))) return kReplaced;
  require_own(*target, status.st_uid);  // another user's file may have its inode number by now
  // An editor that has just released the lock, or a save, may also have replaced the file.
  struct stat named {};
  if (fstatat(target->directory.get(), target->name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return kRemoved;
    fail_os(Status::open, errno, "{}", shown);
  }
  if (!seen.same_file(identity_of(named))) return kReplaced;
  // Reads through the locked descriptor: on NFS another one waits for the lock.
  Descriptor same = duplicate(file.get());
  if (!same) fail_os(Status::open, errno, "{}", shown);
  RegularFile reading = RegularFile::adopt(std::move(same), path);
  const std::uint64_t size = reading.size();
  source = std::make_unique<FileSource>(std::move(reading), 0, size);
  directory = std::move(target->directory);
  return nullptr;
}

// Opens the directory to sync the file's name, which a recent rename may have created. Returns none without permission to
// list the directory.
Descriptor EditedFile::State::open_directory() const {
  Descriptor opened = open_file(directory.get(), ".", O_RDONLY | O_DIRECTORY);
  if (!opened && errno != EACCES) fail_os(Status::write, errno, "the directory of {}", shown);
  return opened;
}

static int sync_both(int file, const Descriptor& directory) {
  const int error = sync_now(file);
  return error == 0 && directory ? sync_directory_now(directory.get()) : error;
}

EditedFile::EditedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
EditedFile::EditedFile(EditedFile&& other) noexcept = default;
EditedFile::~EditedFile() = default;

std::unique_ptr<Source> EditedFile::take_source() { return std::move(state_->source); }
const Identity& EditedFile::seen() const { return state_->seen; }

EditedFile EditedFile::open(const char* path) {
  std::optional<Patience> patience;  // from the first failure on: a lease may have taken longer
  for (;;) {
    auto state = std::make_unique<State>();
    const char* const obstacle = state->try_open(path, patience.has_value());
    if (obstacle == nullptr) return EditedFile(std::move(state));
    if (!patience) patience.emplace();
    if (!patience->wait()) fail(Status::state, "{} {}", state->shown, obstacle);
  }
}

// Beyond RLIMIT_FSIZE, the kernel would write a part of the bytes.
static bool exceeds_limit(std::uint64_t end) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && end > limit.rlim_cur;
}

// The descriptors that finish a write. They are opened before the first byte changes.
struct EditedFile::AfterWrite {
  Descriptor to_close;  // network filesystems report errors when a descriptor is closed
  Descriptor directory;

  AfterWrite(const State& state, bool sync) {
    if (sync) directory = state.open_directory();
    to_close = duplicate(state.file.get());
    if (!to_close) fail_os(Status::write, errno, "{}", state.shown);
  }

  // Returns 0 or the errno.
  int end(int file, bool sync) {
    int error = sync ? sync_both(file, directory) : 0;
    if (to_close.close() != 0 && errno != EINTR && error == 0) error = errno;
    return error;
  }
};

bool EditedFile::is_as_seen() const {
  struct stat now {};
  return fstat(state_->file.get(), &now) == 0 && identity_of(now) == state_->seen;
}

EditedFile::Patch EditedFile::patch(std::uint64_t offset, const void* data, std::size_t n, bool sync) {
  const int file = state_->file.get();
  std::optional<AfterWrite> after;
  {
    const EditLock alone = EditLock::exclusive(file);
    alone.require(state_->shown);
    if (!alone.held()) return Patch::refused;
    after.emplace(*state_, sync);
    if (!is_as_seen()) return Patch::changed;
    if (const int error = exceeds_limit(offset + n) ? EFBIG : write_all_at(file, offset, data, n); error != 0) {
      throw Error{Status::write, error, offset,
                  formatted("{}: writing {} bytes at {}: {}", state_->shown, n, offset, os_error_text(error))};
    }
  }
  if (const int error = after->end(file, sync); error != 0) {
    fail_os(Status::write, error, "{}: the new header was written, but may not have reached the disk", state_->shown);
  }
  return Patch::done;
}

// Marks the file for processes that open it during the write. They cannot see the write in the file's times, which are
// set when a write begins. Locking may fail, because no process waits for this lock.
class WriteMark {
 public:
  explicit WriteMark(int file) : file_(file) { set_byte_lock(file_, LockedByte::data, ByteLock::exclusive); }
  WriteMark(WriteMark&&) = delete;
  ~WriteMark() { set_byte_lock(file_, LockedByte::data, ByteLock::none); }

 private:
  int file_;
};

// The lock of the header is held for the check only. A write of many gigabytes would delay each opening of the file by
// two seconds. Other editors are locked out by flock.
bool EditedFile::overwrite(const std::string& what, std::uint64_t offset, const void* data, std::size_t n, bool sync) {
  const int file = state_->file.get();
  AfterWrite after(*state_, sync);
  {
    const EditLock alone = EditLock::exclusive(file);
    alone.require(state_->shown);
    if (!is_as_seen()) return false;
  }
  if (exceeds_limit(offset + n)) fail_os(Status::write, EFBIG, "{}: {}", state_->shown, what);
  int error = 0;
  {
    const WriteMark mark(file);
    error = write_all_at(file, offset, data, n);
  }
  if (error != 0) {
    throw Error{Status::write, error, offset,
                formatted("{} may contain a part of the new bytes: writing {} bytes to {}: {}", what, n, state_->shown,
                          os_error_text(error))};
  }
  if (error = after.end(file, sync); error != 0) {
    fail_os(Status::write, error, "{} was written to {}, but may not have reached the disk", what, state_->shown);
  }
  return true;
}

void EditedFile::sync() const {
  const int error = sync_both(state_->file.get(), state_->open_directory());
  if (error != 0) fail_os(Status::write, error, "{} has this metadata but may not be on the disk", state_->shown);
}

}  // namespace st::io
