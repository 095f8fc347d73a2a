// Files on POSIX systems: descriptors, regular files opened for reading, and writes that report every error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "io/source.hpp"

namespace st::io {

// ---- descriptors -------------------------------------------------------------------------------------------------

// The descriptors 0, 1 and 2 belong to the host even if they are closed, as in a daemon: otherwise its next printf
// would go into our file. Every descriptor of the library has a higher number. Free numbers below 3 are occupied while
// a file is opened for writing, so the file never has one of them, even for a moment.
constexpr int kFirstDescriptor = 3;

// A file descriptor, closed by the destructor. After writing, closing can report an error, so the owner calls close()
// and checks the result.
class Descriptor {
 public:
  Descriptor() = default;
  // Takes ownership of a descriptor that this library has opened, and moves it to kFirstDescriptor or above.
  explicit Descriptor(int number);
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  // Like close(2). The descriptor is closed even if this fails.
  int close() { return number_ < 0 ? 0 : ::close(std::exchange(number_, -1)); }

 private:
  int number_ = -1;
};

// Like openat(2), but retries when a signal interrupts it, which happens on network filesystems and FUSE. The library
// opens all its files here. On failure, this and the next two return no descriptor and set errno.
Descriptor open_file(int directory, const char* path, int flags, mode_t mode = 0);

// Opens a path that fstatat() has just found to be a regular file. Like a plain open, waits for another process to give
// up its lease on the file (Samba, NFS delegations). Unlike it, never waits for the other end of a FIFO that has
// replaced the file. Fails with EAGAIN if the lease outlasts `patience`.
constexpr std::chrono::seconds kLeasePatience(120);
Descriptor open_regular(int directory, const char* path, int flags, std::chrono::seconds patience = kLeasePatience);

// Opens a pipe: non-blocking and, like files opened for writing, above the standard streams. Returns false and sets
// errno on failure.
bool open_pipe(Descriptor& reads, Descriptor& writes);

// Returns another descriptor of the same open file description.
Descriptor duplicate(int descriptor);

// Returns the process's limit of open descriptors.
std::size_t most_descriptors();

Identity identity_of(const struct stat& status);

// Whether the file changed at this time, later, or up to five seconds earlier. Some filesystems have coarse clocks.
bool changed_lately(const struct stat& status, std::time_t since = std::time(nullptr));

// ---- reading -----------------------------------------------------------------------------------------------------

// A regular file, read with pread.
//
// The descriptor may be closed, and the path reopened for each read: a model of 1,500 shards would exceed the usual
// limit of 1,024 descriptors. Reopening fails if the path leads to another file.
//
// Filesystems reuse the inode number of a removed file. A mapping keeps the inode in use, but not on a server. Without
// a local mapping, size and times must be the same, so a file that was edited in place, renamed, linked or given
// another mode in the meantime is rejected, too.
class RegularFile {
 public:
  // Follows links. Anything but a regular file (FIFO, socket, device, directory, /proc, /sys) is rejected with an error
  // that names its kind, and never blocks. Devices are not opened, because opening can have effects: it starts a
  // watchdog, for example.
  static RegularFile open(const char* path);
  // Same, but returns nullopt if the path is a directory.
  static std::optional<RegularFile> open_unless_directory(const char* path);
  // `name` is relative to an open directory; `path` is what messages and reopen() use.
  static RegularFile open_at(int directory, const char* name, std::string path, bool may_be_link);
  // Takes ownership of a descriptor that nothing else reads through. `path` leads to its file.
  static RegularFile adopt(Descriptor descriptor, std::string path);
  // Duplicates the caller's descriptor.
  static RegularFile duplicate(std::intptr_t descriptor);

  std::uint64_t size() const { return size_; }            // in bytes, when it was opened
  const std::string& path() const { return path_; }       // as given; empty for a duplicate
  const Identity& identity() const { return identity_; }  // when it was opened
  bool remote() const { return remote_; }                 // on a network or FUSE, where mapping is slow
  std::string shown() const;                              // for messages

  // Reads all n bytes. Throws Status::truncated if the file is too short, otherwise Status::read. Any thread may call
  // this.
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const;

  // Returns -1 after release_descriptor().
  int descriptor() const { return descriptor_.get(); }

  // Opens the same file with more flags, or throws.
  Descriptor reopen(int extra_flags) const;

  // Whether the descriptor still refers to this file, and the file is not shorter than before. A host may have closed
  // the descriptor.
  bool is_intact() const;

  // See Source.
  Overwritten overwritten() const;

  // A hint to the page cache. Does nothing without a descriptor.
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const;

  // Closes the descriptor if the file can be reopened. No other thread may be using the file. `mapped`: the caller
  // keeps the file mapped for the lifetime of this object.
  void release_descriptor(bool mapped);

 private:
  static std::optional<RegularFile> try_adopt(Descriptor descriptor, std::string path);
  const std::string& path_to_reopen() const;
  Descriptor reopen_path(int extra_flags) const;
  void require_same(const struct stat& status) const;
  void read_from(int descriptor, std::uint64_t offset, void* dst, std::size_t n) const;

  Descriptor descriptor_;
  Mapping pin_;
  std::string path_;
  std::string absolute_;  // the path to reopen: the working directory may have changed
  std::uint64_t size_ = 0;
  Identity identity_;
  bool inode_in_use_ = true;  // by our descriptor or our mapping
  bool remote_ = false;
  bool being_written_ = false;  // when it was opened
};

// ---- writing -----------------------------------------------------------------------------------------------------

// These functions continue after interruptions and short writes, raise no signal, and return 0 or the errno.
int write_all_at(int descriptor, std::uint64_t offset, const void* data, std::size_t n);
int write_all(int descriptor, const void* data, std::size_t n);
int sync_now(int descriptor);
// Same for a directory. Returns 0 on filesystems that cannot sync one (EINVAL).
int sync_directory_now(int directory);
int set_length(int descriptor, std::uint64_t size);  // ftruncate(2)

// Blocks the signals of failed writes in this thread: SIGPIPE (a pipe without a reader) and SIGXFSZ (a file would
// exceed RLIMIT_FSIZE). By default either one ends the process. While this object exists, the call just fails with
// EPIPE or EFBIG. A signal that was already pending stays pending.
//
// Linux sends both to the writing thread, so they are blocked there, and consumed before they are unblocked. macOS
// sends SIGXFSZ to the process, so another thread may get it.
class NoWriteSignals {
 public:
  NoWriteSignals();
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;
  ~NoWriteSignals();  // may change errno

 private:
  sigset_t pending_;  // before
  sigset_t before_;   // the thread's mask
};

}  // namespace st::io
