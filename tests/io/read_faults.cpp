// SPDX-License-Identifier: Apache-2.0
#undef _FILE_OFFSET_BITS  // both sets of names are defined here
#include "read_faults.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <vector>

#include "nothrow.hpp"
#include "syscall_words.hpp"

#if !defined(__GLIBC__)
using off64_t = off_t;
#endif

namespace read_faults {

namespace {

// Used by every mapping of the program, even before main() and during exit.
std::atomic<bool> armed{false};
std::atomic<std::size_t> seen{0};
Plan plan;

}  // namespace

void arm(const Plan& next) {
  plan = next;
  seen = 0;
  armed = true;
}

void disarm() { armed = false; }

std::size_t calls() { return seen; }

bool fails(const char* call) {
  if (!armed || (plan.call != call && plan.call != "*")) return false;
  const std::size_t number = seen++;
  if (plan.before) plan.before(number);
  if (plan.error == 0 || number < plan.first || number - plan.first >= plan.times) return false;
  errno = plan.error;
  return true;
}

namespace {

std::size_t shortened(std::size_t n) { return armed && plan.short_reads != 0 ? std::min(n, plan.short_reads) : n; }

bool is_direct(int file) { return (fcntl(file, F_GETFL) & O_DIRECT) != 0; }

ssize_t any_pread(int file, void* data, std::size_t n, off64_t offset) {
  if (fails("read") || fails("pread")) return -1;
  return syscall(SYS_pread64, file, data, shortened(n), ST_WORDS_AFTER_ODD(offset));
}

ssize_t any_preadv(int file, const iovec* pieces, int n, off64_t offset) {
  if (fails("read") || fails("preadv") || (is_direct(file) && fails("direct read"))) return -1;
  const long words[] = {static_cast<long>(offset), static_cast<long>(offset >> 32)};  // on every system
  if (!armed || plan.short_reads == 0) return syscall(SYS_preadv, file, pieces, n, words[0], words[1]);
  std::vector<iovec> some;
  for (std::size_t left = plan.short_reads; n > 0 && left > 0; --n, ++pieces) {
    some.push_back({pieces->iov_base, std::min(left, pieces->iov_len)});
    left -= some.back().iov_len;
  }
  return syscall(SYS_preadv, file, some.data(), static_cast<int>(some.size()), words[0], words[1]);
}

[[maybe_unused]] void* any_mmap(void* where, std::size_t n, int protection, int flags, int file, off64_t offset) {
  if (file >= 0 && fails("mmap")) return MAP_FAILED;
#if defined(SYS_mmap2)  // counts in units of 4096 bytes
  const long at = static_cast<long>(offset / 4096);
  return reinterpret_cast<void*>(syscall(SYS_mmap2, where, n, protection, flags, file, at));
#elif defined(__s390__)  // takes the address of its arguments
  const long args[] = {reinterpret_cast<long>(where), static_cast<long>(n), protection, flags, file, offset};
  return reinterpret_cast<void*>(syscall(SYS_mmap, args));
#else
  return reinterpret_cast<void*>(syscall(SYS_mmap, where, n, protection, flags, file, offset));
#endif
}

// The C library's own.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

template <class Entry>
Entry* any_readdir(DIR* folder, const char* name) {
  return fails("readdir") ? nullptr : next<Entry*(DIR*)>(name)(folder);
}

// Through the C library, because the kernel's struct differs on some processors.
template <class Status>
int any_fstat(int file, Status* status, const char* name) {
  return fails("fstat") ? -1 : next<int(int, Status*)>(name)(file, status);
}

template <class Status>
int any_fstatat(int folder, const char* path, Status* status, int flags, const char* name) {
  return fails("stat") ? -1 : next<int(int, const char*, Status*, int)>(name)(folder, path, status, flags);
}

}  // namespace

}  // namespace read_faults

using namespace read_faults;

extern "C" {

ssize_t pread(int file, void* data, size_t n, off_t offset) { return any_pread(file, data, n, offset); }
ssize_t preadv(int file, const iovec* pieces, int n, off_t offset) { return any_preadv(file, pieces, n, offset); }

#if !defined(__SANITIZE_THREAD__)  // which maps memory before any code of this program runs
void* mmap(void* where, size_t n, int protection, int flags, int file, off_t offset) ST_NOTHROW {
  return any_mmap(where, n, protection, flags, file, offset);
}
#endif

ssize_t lgetxattr(const char* path, const char* name, void* value, size_t n) ST_NOTHROW {
  return fails("getxattr") ? -1 : syscall(SYS_lgetxattr, path, name, value, n);
}
ssize_t fgetxattr(int file, const char* name, void* value, size_t n) ST_NOTHROW {
  return fails("getxattr") ? -1 : syscall(SYS_fgetxattr, file, name, value, n);
}
int fsetxattr(int file, const char* name, const void* value, size_t n, int flags) ST_NOTHROW {
  return fails("setxattr") ? -1 : static_cast<int>(syscall(SYS_fsetxattr, file, name, value, n, flags));
}
int fremovexattr(int file, const char* name) ST_NOTHROW {
  return fails("removexattr") ? -1 : static_cast<int>(syscall(SYS_fremovexattr, file, name));
}

dirent* readdir(DIR* folder) { return any_readdir<dirent>(folder, "readdir"); }

int fstat(int file, struct stat* status) ST_NOTHROW { return any_fstat(file, status, "fstat"); }
int fstatat(int folder, const char* path, struct stat* status, int flags) ST_NOTHROW {
  return any_fstatat(folder, path, status, flags, "fstatat");
}

#if defined(__GLIBC__)  // other C libraries have one set of names
ssize_t pread64(int file, void* data, size_t n, off64_t offset) { return any_pread(file, data, n, offset); }
ssize_t preadv64(int file, const iovec* pieces, int n, off64_t offset) { return any_preadv(file, pieces, n, offset); }
dirent64* readdir64(DIR* folder) { return any_readdir<dirent64>(folder, "readdir64"); }
int fstat64(int file, struct stat64* status) ST_NOTHROW { return any_fstat(file, status, "fstat64"); }
int fstatat64(int folder, const char* path, struct stat64* status, int flags) ST_NOTHROW {
  return any_fstatat(folder, path, status, flags, "fstatat64");
}
#if !defined(__SANITIZE_THREAD__)
void* mmap64(void* where, size_t n, int protection, int flags, int file, off64_t offset) ST_NOTHROW {
  return any_mmap(where, n, protection, flags, file, offset);
}
#endif
#endif

}  // extern "C"
