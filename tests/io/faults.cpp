// SPDX-License-Identifier: Apache-2.0
#undef _FILE_OFFSET_BITS  // both sets of names are defined here
#include "faults.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <ctime>

#include "nothrow.hpp"
#include "read_faults.hpp"
#include "syscall_words.hpp"

#if !defined(__GLIBC__)
using off64_t = off_t;
#endif

namespace faults {

namespace {

bool armed = false;
Plan plan;
std::vector<std::string> seen;
std::vector<Change> changed;
std::atomic<long> clock_offset{0};  // read by every time() of the program
bool flock_by_bytes = false;

}  // namespace

void arm(const Plan& next) {
  seen.clear();
  seen.reserve(4096);
  changed.clear();
  plan = next;
  armed = true;
}

void disarm() { armed = false; }

void set_clock(long seconds_ahead) { clock_offset = seconds_ahead; }

void set_flock_by_bytes(bool by_bytes) { flock_by_bytes = by_bytes; }

std::size_t interruptions_left() { return plan.interruptions; }

const std::vector<std::string>& calls() { return seen; }

const std::vector<Change>& changes() { return changed; }

namespace {

// flock(2) as the NFS client does it.
int lock_all_bytes(int file, int operation) {
#if defined(F_OFD_SETLK)
  struct flock lock {};
  lock.l_type = (operation & LOCK_UN) != 0 ? F_UNLCK : (operation & LOCK_EX) != 0 ? F_WRLCK : F_RDLCK;
  lock.l_whence = SEEK_SET;
  const int command = (operation & LOCK_NB) != 0 ? F_OFD_SETLK : F_OFD_SETLKW;
  return fcntl(file, command, &lock);
#else
  static_cast<void>(file), static_cast<void>(operation);
  errno = ENOSYS;
  return -1;
#endif
}

// What becomes of this call.
Action next(const char* name) {
  if (!armed || plan.only_refusals) return Action::none;
  seen.emplace_back(name);
  if (seen.size() - 1 != plan.at) return Action::none;
  if (plan.action == Action::kill_before) kill(getpid(), SIGKILL);
  if (plan.action == Action::fail) errno = plan.error;
  return plan.action;
}

long done(Action action, long result) {
  if (action == Action::kill_after) kill(getpid(), SIGKILL);
  return result;
}

long call(const char* name, long number, long a, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  const Action action = next(name);
  if (action == Action::fail) return -1;
  return done(action, syscall(number, a, b, c, d, e, f));
}

// Calls with a length in `n`.
long sized(const char* name, std::size_t n, auto&& run) {
  const Action action = next(name);
  if (action == Action::fail) return -1;
  if (action == Action::none_of_it) return 0;
  return done(action, run(action == Action::cut_short ? (n + 1) / 2 : n));
}

// Not fstatat(), which a test may make fail.
struct statx status_of(int folder, const char* path = "") {
  struct statx status {};
  const int flags = *path == '\0' ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
  syscall(SYS_statx, folder, path, flags, STATX_BASIC_STATS, &status);
  return status;
}

bool is_recorded(long result) { return armed && plan.record_changes && result >= 0; }

void record_file(Change::Kind kind, int file) {
  const struct statx status = status_of(file);
  Change change;
  change.kind = kind;
  change.inode = status.stx_ino;
  change.value = kind == Change::Kind::size ? status.stx_size : status.stx_mode & 07777U;
  changed.push_back(std::move(change));
}

// The bytes are read back.
void record_bytes(int file, off64_t offset, std::size_t n) {
  Change change;
  change.kind = Change::Kind::bytes;
  change.inode = status_of(file).stx_ino;
  change.offset = static_cast<std::uint64_t>(offset);
  change.bytes.resize(n);
  syscall(SYS_pread64, file, change.bytes.data(), n, ST_WORDS_AFTER_ODD(offset));
  changed.push_back(std::move(change));
}

void record_name(int folder, const char* name, bool removed) {
  Change change;
  change.kind = Change::Kind::name;
  change.folder = status_of(folder).stx_ino;
  change.name = name;
  change.inode = removed ? 0 : status_of(folder, name).stx_ino;
  changed.push_back(std::move(change));
}

long as_long(const void* pointer) { return reinterpret_cast<long>(pointer); }

bool is_interrupted_open() {
  static bool last = false;
  if (armed && plan.interrupted_opens) last = !last;
  return armed && plan.interrupted_opens && last;
}

int any_fallocate(int file, int mode, off64_t offset, off64_t n) {
  if (armed && plan.interruptions > 0) {
    --plan.interruptions;
    errno = EINTR;
    return -1;
  }
  const long result = call("fallocate", SYS_fallocate, file, mode, ST_WORDS(offset), ST_WORDS(n));
  if (is_recorded(result)) record_file(Change::Kind::size, file);
  return static_cast<int>(result);
}

int any_ftruncate(int file, off64_t size) {
#if defined(SYS_ftruncate64)
  const long result = call("ftruncate", SYS_ftruncate64, file, ST_WORDS_AFTER_ODD(size));
#else
  const long result = call("ftruncate", SYS_ftruncate, file, size);
#endif
  if (is_recorded(result)) record_file(Change::Kind::size, file);
  return static_cast<int>(result);
}

// Not the system call: ThreadSanitizer intercepts the C library's function, and has to see that a descriptor is closed.
int c_library_close(int file) {
  static const auto function = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "close"));
  return function(file);
}

#if defined(__linux__)
// The arguments of the system call differ between processors.
int c_library_sync_file_range(int file, off64_t offset, off64_t n, unsigned flags) {
  static const auto function =
      reinterpret_cast<int (*)(int, off64_t, off64_t, unsigned)>(dlsym(RTLD_NEXT, "sync_file_range"));
  return function(file, offset, n, flags);
}
#endif

int open_in(int folder, const char* path, int flags, mode_t mode) {
  if (armed && plan.before_open != nullptr) plan.before_open(path, flags);
  if (is_interrupted_open()) {
    errno = EINTR;
    return -1;
  }
  flags |= O_LARGEFILE;  // all files have 64 bits here
  const bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
  if (armed && nameless && plan.no_nameless_files) {
    errno = EOPNOTSUPP;
    return -1;
  }
  if (!nameless && (flags & O_CREAT) == 0) {
    return read_faults::fails("open") ? -1 : static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  }
  const long file = call(nameless ? "open nameless" : "create", SYS_openat, folder, as_long(path), flags, mode);
  if (is_recorded(file)) {
    record_file(Change::Kind::create, static_cast<int>(file));
    if (!nameless) record_name(folder, path, false);
  }
  return static_cast<int>(file);
}

int any_rename(const char* call_name, long number, int from, const char* path, int to, const char* name, long flags) {
  if (armed && plan.before_rename != nullptr) plan.before_rename();
  const long result = call(call_name, number, from, as_long(path), to, as_long(name), flags);
  if (is_recorded(result)) {
    record_name(to, name, false);
    record_name(from, path, true);
  }
  return static_cast<int>(result);
}

ssize_t any_pwrite(int file, const void* data, std::size_t n, off64_t offset) {
  if (armed && plan.before_pwrite != nullptr) plan.before_pwrite();
  const long written = sized("pwrite", n, [&](std::size_t some) {
    return syscall(SYS_pwrite64, file, data, some, ST_WORDS_AFTER_ODD(offset));
  });
  if (is_recorded(written)) record_bytes(file, offset, static_cast<std::size_t>(written));
  return written;
}

}  // namespace

}  // namespace faults

using namespace faults;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_in(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_in(folder, path, flags, mode);
}

ssize_t pwrite(int file, const void* data, size_t n, off_t offset) { return any_pwrite(file, data, n, offset); }

ssize_t write(int file, const void* data, size_t n) {
  if (armed && plan.before_write != nullptr) plan.before_write();
  return sized("write", n, [&](std::size_t some) { return syscall(SYS_write, file, data, some); });
}

ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t n, unsigned flags) {
  if (armed && plan.no_kernel_copies) {
    errno = EXDEV;
    return -1;
  }
  if (armed && plan.half_a_copy) {
    plan.half_a_copy = false;
    plan.no_kernel_copies = true;
    n = (n + 1) / 2;
  }
  const long copied = sized("copy_file_range", n, [&](std::size_t some) {
    return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, some, flags);
  });
  if (is_recorded(copied)) record_bytes(to, *to_offset - copied, static_cast<std::size_t>(copied));
  return copied;
}

time_t time(time_t* result) ST_NOTHROW {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  now.tv_sec += clock_offset;
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

int ftruncate(int file, off_t size) ST_NOTHROW { return any_ftruncate(file, size); }
int fallocate(int file, int mode, off_t offset, off_t n) { return any_fallocate(file, mode, offset, n); }
int fsync(int file) {
  const bool is_folder = S_ISDIR(status_of(file).stx_mode);
  if (armed && plan.before_sync != nullptr && !is_folder) plan.before_sync();
  const long result = call(is_folder ? "fsync folder" : "fsync", SYS_fsync, file);
  const int error = errno;
  if (is_recorded(0)) record_file(result == 0 ? Change::Kind::sync : Change::Kind::failed_sync, file);
  errno = error;
  return static_cast<int>(result);
}
int fchmod(int file, mode_t mode) ST_NOTHROW {
  const long result = call("fchmod", SYS_fchmod, file, mode);
  if (is_recorded(result)) record_file(Change::Kind::mode, file);
  return static_cast<int>(result);
}
int fchown(int file, uid_t owner, gid_t group) ST_NOTHROW {
  return static_cast<int>(call("fchown", SYS_fchown, file, owner, group));
}
int unlinkat(int folder, const char* path, int flags) ST_NOTHROW {
  const long result = call("unlinkat", SYS_unlinkat, folder, as_long(path), flags);
  if (is_recorded(result)) record_name(folder, path, true);
  return static_cast<int>(result);
}
int linkat(int from, const char* path, int to, const char* name, int flags) ST_NOTHROW {
  if (armed && plan.no_links) {
    errno = EPERM;
    return -1;
  }
  if (armed && plan.before_link != nullptr) plan.before_link(to, name);
  const long result = call("linkat", SYS_linkat, from, as_long(path), to, as_long(name), flags);
  if (is_recorded(result)) record_name(to, name, false);
  return static_cast<int>(result);
}
int renameat(int from, const char* path, int to, const char* name) ST_NOTHROW {
#if defined(SYS_renameat)
  return any_rename("renameat", SYS_renameat, from, path, to, name, 0);
#else  // riscv64
  return any_rename("renameat", SYS_renameat2, from, path, to, name, 0);
#endif
}
int renameat2(int from, const char* path, int to, const char* name, unsigned flags) ST_NOTHROW {
  return any_rename("renameat2", SYS_renameat2, from, path, to, name, static_cast<long>(flags));
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // the C library has a struct of this name, too
int flock(int file, int operation) ST_NOTHROW {
  if (flock_by_bytes) return lock_all_bytes(file, operation);
  return static_cast<int>(call("flock", SYS_flock, file, operation));
}
#pragma GCC diagnostic pop

#if defined(__linux__)
int sync_file_range(int file, off64_t offset, off64_t n, unsigned flags) {
  const Action action = next(S_ISREG(status_of(file).stx_mode) ? "sync_file_range" : "sync_file_range of no file");
  if (action == Action::fail) return -1;
  return static_cast<int>(done(action, c_library_sync_file_range(file, offset, n, flags)));
}
#endif

int close(int file) {
  const int flags = fcntl(file, F_GETFL);
  const Action action = next(flags < 0 ? "close of none" : (flags & O_ACCMODE) != O_RDONLY ? "close written" : "close");
  const int error = errno;
  const long result = c_library_close(file);
  if (action == Action::fail) {
    errno = error;
    return -1;
  }
  return static_cast<int>(done(action, result));
}

#if defined(__GLIBC__)  // other C libraries have one set of names
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));
ssize_t pwrite64(int file, const void* data, size_t n, off64_t offset) { return any_pwrite(file, data, n, offset); }
int ftruncate64(int file, off64_t size) ST_NOTHROW { return any_ftruncate(file, size); }
int fallocate64(int file, int mode, off64_t offset, off64_t n) { return any_fallocate(file, mode, offset, n); }
#endif

}  // extern "C"
