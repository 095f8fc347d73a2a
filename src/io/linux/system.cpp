// Locks, reads and blocks of files on Linux, and random numbers.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/system.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "io/os.hpp"

namespace st::io {

namespace {

// From linux/magic.h and from the filesystems' own headers.
constexpr std::array<std::uint32_t, 5> kKernelMounts{0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x63677270};
constexpr std::array<std::uint32_t, 11> kRemoteMounts{
    0x6969,      // NFS
    0x517B,      // SMB
    0xFE534D42,  // SMB2
    0xFF534D42,  // CIFS
    0x65735546,  // FUSE
    0x01021997,  // 9P
    0x00C36400,  // Ceph
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x5346414F,  // AFS
    0x19830326,  // BeeGFS
};

constexpr off_t kFirstLockedByte = static_cast<off_t>(std::uint64_t{1} << (sizeof(off_t) > 4 ? 62 : 30));

short kind_of(ByteLock lock) {
  switch (lock) {
    case ByteLock::shared: return F_RDLCK;
    case ByteLock::exclusive: return F_WRLCK;
    case ByteLock::none: break;
  }
  return F_UNLCK;
}

struct flock lock_on(LockedByte byte, ByteLock kind) {
  struct flock lock {};
  lock.l_type = kind_of(kind);
  lock.l_whence = SEEK_SET;
  lock.l_start = kFirstLockedByte + static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock;
}

constexpr std::uint64_t kUsualAlignment = 4096;  // enough for every disk that does not report an alignment
#if defined(STATX_DIOALIGN)
constexpr std::uint64_t kMostAlignment = 65536;
#endif

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

constexpr long kCachestat = 451;  // the same number on every architecture; older headers do not name it

struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t length;
};

struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

std::optional<Residency> ask_cachestat(int descriptor, std::uint64_t offset, std::uint64_t n) {
  CachestatRange range{offset, n};
  Cachestat answer{};
  if (syscall(kCachestat, descriptor, &range, &answer, 0) != 0) return std::nullopt;
  return Residency{std::min(answer.cached * page_bytes(), n), answer.dirty + answer.writeback != 0};
}

// mincore() reports all pages as resident to processes that may not write to the file.
bool may_ask_mincore(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return false;
  const uid_t user = geteuid();
  return user == 0 || status.st_uid == user;
}

std::optional<Residency> ask_mincore(int descriptor, std::uint64_t offset, std::uint64_t n) {
  if (!may_ask_mincore(descriptor)) return std::nullopt;
  const std::uint64_t page = page_bytes();
  constexpr std::uint64_t kPages = 4096;
  std::array<unsigned char, kPages> present{};
  Residency answer;
  const std::uint64_t end = offset + n;
  for (std::uint64_t at = offset / page * page; at < end; at += kPages * page) {
    const auto length = static_cast<std::size_t>(std::min(end - at, kPages * page));
    void* const window = mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(at));
    if (window == MAP_FAILED) return std::nullopt;
    const bool told = mincore(window, length, present.data()) == 0;
    munmap(window, length);
    if (!told) return std::nullopt;
    const auto pages = static_cast<std::ptrdiff_t>((length + page - 1) / page);
    const auto there =
        std::count_if(present.begin(), present.begin() + pages, [](unsigned char p) { return (p & 1) != 0; });
    answer.resident += static_cast<std::uint64_t>(there) * page;
  }
  answer.resident = std::min(answer.resident, n);
  return answer;
}

constexpr std::size_t kMostInOneCopy = std::size_t{1} << 30;  // Linux stops a little below 2 GiB
constexpr int kMostInterruptions = 10;                        // a timer's signals may come faster than a copy
constexpr std::uint64_t kLeastToTake = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallestBlock = 512;  // of any filesystem

// Filesystems share whole blocks only.
bool may_share(std::uint64_t from_offset, std::uint64_t to_offset) {
  return from_offset % kSmallestBlock == 0 && to_offset % kSmallestBlock == 0;
}

// Updates the kernel's cache, from which fstat() and stat() answer.
void ask_server([[maybe_unused]] int directory, [[maybe_unused]] const char* path, [[maybe_unused]] int flags) {
#if defined(AT_STATX_FORCE_SYNC)
  struct statx fresh {};
  statx(directory, path, flags | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &fresh);
#endif
}

}  // namespace

// ---- open files ----------------------------------------------------------------------------------------------------

MountKind mount_kind(int descriptor, const struct stat& status) {
  if (major(status.st_dev) != 0) return MountKind::local;  // a real disk: all other mounts have major number 0
  struct statfs mount {};
  if (fstatfs(descriptor, &mount) != 0) return MountKind::local;
  const auto type = static_cast<std::uint32_t>(mount.f_type);
  if (std::find(kKernelMounts.begin(), kKernelMounts.end(), type) != kKernelMounts.end()) return MountKind::kernel;
  const bool remote = std::find(kRemoteMounts.begin(), kRemoteMounts.end(), type) != kRemoteMounts.end();
  return remote ? MountKind::remote : MountKind::local;
}

int fresh_status(int descriptor, struct stat& status) {
  ask_server(descriptor, "", AT_EMPTY_PATH);
  return fstat(descriptor, &status);
}

int fresh_status(const char* path, struct stat& status) {
  ask_server(AT_FDCWD, path, 0);
  return stat(path, &status);
}

int fresh_status(int directory, const char* name, struct stat& status) {
  ask_server(directory, name, AT_SYMLINK_NOFOLLOW);
  return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW);
}

int set_byte_lock(int descriptor, LockedByte byte, ByteLock kind) {
  struct flock lock = lock_on(byte, kind);
  return fcntl(descriptor, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

bool is_byte_locked(int descriptor, LockedByte byte) {
  struct flock lock = lock_on(byte, ByteLock::shared);
  if (fcntl(descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return false;
  return lock.l_start >= kFirstLockedByte;  // others lock the whole file, as flock() does on NFS
}

void take_pending_signal(int number) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, number);
  const timespec now{};
  sigtimedwait(&wanted, nullptr, &now);  // does not wait, so it is not interrupted
}

// ---- reading -------------------------------------------------------------------------------------------------------

int direct_flag() { return O_DIRECT; }

// At least a page, even if the disk requires less. Otherwise bytes can be lost if the process forks during a direct
// read, and then writes to the rest of a page that the disk is filling.
std::uint64_t direct_alignment([[maybe_unused]] int descriptor) {
#if defined(STATX_DIOALIGN)
  struct statx status {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
    const std::uint64_t wanted = std::max(status.stx_dio_mem_align, status.stx_dio_offset_align);
    return status.stx_dio_offset_align == 0 || wanted > kMostAlignment ? 0 : std::max(wanted, kUsualAlignment);
  }
#endif
  return kUsualAlignment;
}

// Uses cachestat(2) if the kernel has it (Linux 6.5): it takes 0.1 ms for 4 GiB. Otherwise uses mincore(2) on a
// temporary mapping.
std::optional<Residency> residency(int descriptor, std::uint64_t offset, std::uint64_t n) {
  if (n == 0) return Residency{};
  if (const auto answer = ask_cachestat(descriptor, offset, n)) return answer;
  return ask_mincore(descriptor, offset, n);
}

ssize_t read_scattered(int descriptor, std::span<const iovec> pieces, off_t offset) {
  return preadv(descriptor, pieces.data(), static_cast<int>(pieces.size()), offset);
}

// ---- blocks --------------------------------------------------------------------------------------------------------

std::uint64_t copy_in_kernel(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset, std::uint64_t n) {
  const NoWriteSignals quiet;
  // On ext4, filling preallocated blocks is a fifth faster than allocating them page by page. If the disk is full, the
  // copy reports it. Copies that share blocks skip this: they need no new blocks, and allocating them could fill the
  // filesystem.
  if (n >= kLeastToTake && !may_share(from_offset, to_offset)) {
    static_cast<void>(fallocate(to, 0, static_cast<off_t>(to_offset), static_cast<off_t>(n)));
  }
  std::uint64_t done = 0;
  int interruptions = 0;  // consecutive
  while (done < n) {
    off_t source = static_cast<off_t>(from_offset + done);
    off_t target = static_cast<off_t>(to_offset + done);
    const ssize_t copied = copy_file_range(
        from, &source, to, &target, static_cast<std::size_t>(std::min<std::uint64_t>(n - done, kMostInOneCopy)), 0);
    if (copied < 0 && errno == EINTR && ++interruptions < kMostInterruptions) continue;
    if (copied <= 0) break;
    interruptions = 0;
    done += static_cast<std::uint64_t>(copied);
  }
  return done;
}

Extent stored_bytes(int file, std::uint64_t at, std::uint64_t end) {
  const off_t begin = lseek(file, static_cast<off_t>(at), SEEK_DATA);
  if (begin < 0) {
    struct stat status {};
    const bool hole = errno == ENXIO && fstat(file, &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= end;
    return hole ? Extent{end, end} : Extent{at, end};
  }
  if (static_cast<std::uint64_t>(begin) >= end) return {end, end};
  const off_t stop = lseek(file, begin, SEEK_HOLE);
  const auto first = static_cast<std::uint64_t>(begin);
  return {first, stop <= begin ? end : std::min(static_cast<std::uint64_t>(stop), end)};
}

int take_space(int file, std::uint64_t size) {
  const NoWriteSignals quiet;
  for (int i = 0; i < kMostInterruptions; ++i) {
    if (fallocate(file, 0, 0, static_cast<off_t>(size)) == 0) return 0;
    const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
    if (full) return errno;
    if (errno != EINTR) return 0;  // not every filesystem supports it
  }
  return 0;
}

void begin_writing_back(int file) { static_cast<void>(sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE)); }

// ---- random numbers ------------------------------------------------------------------------------------------------

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof seed)) return seed;
  // Early at boot, or under a seccomp filter, fall back to the stack address and the clock.
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return reinterpret_cast<std::uintptr_t>(&seed) * 0x9E3779B97F4A7C15 ^ now;
}

std::uint64_t hash_seed(const void* table) {
  std::uint64_t secret = 0;
  // 16 random bytes that the kernel gives each new program. The C library uses the first few for its stack guard.
  const auto* const given = reinterpret_cast<const char*>(getauxval(AT_RANDOM));
  if (given != nullptr) std::memcpy(&secret, given + 8, sizeof secret);
  if (secret == 0) secret = random_seed();
  return (secret ^ reinterpret_cast<std::uintptr_t>(table)) * 0x9E3779B97F4A7C15;
}

}  // namespace st::io
