// Portable versions of the functions in src/io/linux, using only POSIX.1-2008. Most of them report that the operation
// is not supported.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/system.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <memory>
#include <memory_resource>

#include "base/error.hpp"
#include "io/memory.hpp"
#include "io/os.hpp"

namespace st::io {

// ---- open files ----------------------------------------------------------------------------------------------------

Descriptor reopen(int /*descriptor*/, int /*flags*/) {
  errno = ENOTSUP;
  return {};
}

// The path must still lead to the file. The result is wrong only if another process swaps directories in the meantime.
std::string real_path(int descriptor, const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  struct stat opened {};
  struct stat found {};
  const bool same = real != nullptr && fstat(descriptor, &opened) == 0 && lstat(real.get(), &found) == 0 &&
                    opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
  return same ? std::string(real.get()) : std::string();
}

// POSIX.1-2008 cannot query the type of a filesystem.
MountKind mount_kind(int /*descriptor*/, const struct stat& /*status*/) { return MountKind::local; }

int fresh_status(int descriptor, struct stat& status) { return fstat(descriptor, &status); }
int fresh_status(const char* path, struct stat& status) { return stat(path, &status); }
int fresh_status(int directory, const char* name, struct stat& status) {
  return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW);
}

int set_byte_lock(int /*descriptor*/, LockedByte /*byte*/, ByteLock /*lock*/) { return ENOTSUP; }
bool is_byte_locked(int /*descriptor*/, LockedByte /*byte*/) { return false; }

// Would block if another thread consumed the signal first. But SIGPIPE is sent only to the writing thread.
void take_pending_signal(int number) {
  sigset_t pending;
  if (sigpending(&pending) != 0 || sigismember(&pending, number) != 1) return;
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, number);
  int taken = 0;
  sigwait(&wanted, &taken);
}

// ---- reading -------------------------------------------------------------------------------------------------------

int direct_flag() { return 0; }

std::uint64_t direct_alignment(int /*descriptor*/) { return 0; }

std::optional<Residency> residency(int /*descriptor*/, std::uint64_t /*offset*/, std::uint64_t /*n*/) {
  return std::nullopt;
}

ssize_t read_scattered(int descriptor, std::span<const iovec> pieces, off_t offset) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // some systems refuse 2 GiB
  return pread(descriptor, pieces[0].iov_base, std::min(pieces[0].iov_len, kMostAtOnce), offset);
}

// ---- mappings ------------------------------------------------------------------------------------------------------

int map_without_reserve() { return 0; }

void advise_pages(void* begin, std::size_t bytes, Advice advice) {
  posix_madvise(begin, bytes, advice == Advice::will_need ? POSIX_MADV_WILLNEED : POSIX_MADV_DONTNEED);
}

bool copy_from_pages(const void* from, void* to, std::size_t n) { return copy_through_pipe(from, to, n); }

// ---- names in a directory ------------------------------------------------------------------------------------------

Descriptor open_directory_for_lookup(int directory, const char* path) {
#if defined(O_SEARCH)
  return open_file(directory, path, O_SEARCH | O_DIRECTORY);
#else
  return open_file(directory, path, O_RDONLY | O_DIRECTORY);
#endif
}

// Checks the link before and after reading its text.
int read_link(int directory, const std::string& name, SymbolicLink& link) {
  if (fstatat(directory, name.c_str(), &link.status, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  std::array<char, PATH_MAX> text;
  const ssize_t n = readlinkat(directory, name.c_str(), text.data(), text.size());
  if (n < 0) return errno == EINVAL ? EAGAIN : errno;
  link.text.assign(text.data(), static_cast<std::size_t>(n));
  struct stat after {};
  if (fstatat(directory, name.c_str(), &after, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  return after.st_dev == link.status.st_dev && after.st_ino == link.status.st_ino ? 0 : EAGAIN;
}

Hold hold_of(int /*directory*/, const std::string& /*name*/) { return Hold::none; }

bool may_rename_others_files() { return geteuid() == 0; }

bool is_unmapped(std::uint32_t /*owner_or_group*/) { return false; }

Descriptor open_nameless(int /*directory*/, mode_t /*mode*/) { return {}; }

int link_nameless(int /*file*/, int /*directory*/, const std::string& /*name*/) {
  errno = ENOTSUP;
  return -1;
}

int rename_to_free_name(int /*from_directory*/, const std::string& /*from*/, int /*directory*/,
                        const std::string& /*to*/) {
  return ENOSYS;
}

// ---- what a file has besides its bytes -----------------------------------------------------------------------------

Attributes attributes_of(int /*directory*/, const std::string& /*name*/) { return {{}, {}, true}; }

void give_others(int /*file*/, const std::vector<Attribute>& /*others*/) {}

bool give_lists(int /*file*/, const std::vector<Attribute>& lists) { return lists.empty(); }

// ---- blocks --------------------------------------------------------------------------------------------------------

// Does not call posix_fallocate(): if the filesystem cannot preallocate, C libraries write to each block instead.
std::uint64_t copy_in_kernel(int /*from*/, std::uint64_t /*from_offset*/, int /*to*/, std::uint64_t /*to_offset*/,
                             std::uint64_t /*n*/) {
  return 0;
}

Extent stored_bytes(int /*file*/, std::uint64_t at, std::uint64_t end) { return {at, end}; }

int take_space(int /*file*/, std::uint64_t /*size*/) { return 0; }

void begin_writing_back(int /*file*/) {}

// ---- memory and random numbers -------------------------------------------------------------------------------------

void* allocate(std::size_t bytes, std::size_t alignment) {
  return std::pmr::new_delete_resource()->allocate(bytes, alignment);
}

void deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
}

// Uses calloc(), which gets large zeroed memory directly from the system. The original pointer is stored just before
// the returned buffer.
std::byte* reserve_buffer(std::uint64_t bytes) {
  constexpr std::size_t kFront = sizeof(void*);
  if (bytes > SIZE_MAX / 2) fail(Status::no_memory, "a buffer of {} bytes", bytes);
  void* const memory = std::calloc(1, static_cast<std::size_t>(bytes) + kFront + kBufferAlignment);
  if (memory == nullptr) fail_os(Status::no_memory, ENOMEM, "a buffer of {} bytes", bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t skipped = kBufferAlignment - (address + kFront) % kBufferAlignment + kFront;
  std::byte* const begin = static_cast<std::byte*>(memory) + skipped;
  *reinterpret_cast<void**>(begin - kFront) = memory;
  return begin;
}

bool populate_buffer(std::byte* /*begin*/, std::size_t /*bytes*/) { return false; }

void keep_from_children(std::byte* /*begin*/, std::size_t /*bytes*/) noexcept {}

void free_buffer(std::byte* buffer) noexcept {
  if (buffer != nullptr) std::free(*reinterpret_cast<void**>(buffer - sizeof(void*)));
}

void prefer_node(std::byte* /*begin*/, std::size_t /*bytes*/, int /*node*/) {}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  const Descriptor device = open_file(AT_FDCWD, "/dev/urandom", O_RDONLY | O_NOCTTY);
  if (device && read(device.get(), &seed, sizeof seed) == static_cast<ssize_t>(sizeof seed)) return seed;
  // Without such a device or a free descriptor, fall back to the stack address and the clock.
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return reinterpret_cast<std::uintptr_t>(&seed) * 0x9E3779B97F4A7C15 ^ now;
}

std::uint64_t hash_seed(const void* table) {
  return (random_seed() ^ reinterpret_cast<std::uintptr_t>(table)) * 0x9E3779B97F4A7C15;
}

}  // namespace st::io
