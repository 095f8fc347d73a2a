// Files of POSIX systems: descriptors, regular files that are read, and writing with all its errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "io/source.hpp"

namespace st::io {

// ---- descriptors -------------------------------------------------------------------------------------------------

// The numbers 0, 1 and 2 belong to the host even while they are closed, as in a daemon: its next printf would go into
// our file. Every descriptor of the library has a higher number. A file is opened for writing while these numbers are
// occupied, so it does not have one of them even for a moment.
constexpr int kFirstDescriptor = 3;

// A file descriptor that is closed by the destructor. If closing can report an error, because a file was written
// through the descriptor, its owner calls close() and checks the result.
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
  // As close(2). The number is closed even if that fails.
  int close() { return number_ < 0 ? 0 : ::close(std::exchange(number_, -1)); }

 private:
  int number_ = -1;
};

// As openat(2), but not interrupted by signals, as network filesystems and FUSE otherwise are. All files of the library
// are opened here. No descriptor, and errno, if it fails; so do the next two.
Descriptor open_file(int directory, const char* path, int flags, mode_t mode = 0);

// Opens what fstatat() has just found to be a regular file. Waits for another process to give up its lease on the file
// (Samba, NFS delegations), as a plain open does, but not for the other end of a FIFO that has taken the file's place.
// EAGAIN if the lease outlasts the caller's patience. The kernel ends a lease after 45 seconds, unless the
// administrator has set another time.
constexpr std::chrono::seconds kLeasePatience(120);
Descriptor open_regular(int directory, const char* path, int flags, std::chrono::seconds patience = kLeasePatience);

// Opens a pipe and returns its read and write ends: non-blocking and, like files opened for writing, above the standard
// streams. Returns false, and sets errno, if there is none.
bool open_pipe(Descriptor& reads, Descriptor& writes);

// Another descriptor of the same open file description.
Descriptor duplicate(int descriptor);

// Returns how many descriptors the process may have open.
std::size_t most_descriptors();

Identity identity_of(const struct stat& status);

// ---- reading -----------------------------------------------------------------------------------------------------

// A regular file that is read with pread.
//
// The descriptor may be closed while nothing is read. The path is then reopened for each read: a model of 1,500 shards
// would otherwise exceed the usual limit of 1,024 descriptors. A reopened file must be the same file; anything else is
// an error.
//
// Device and inode identify a file only as long as the inode is in use, since filesystems give the number of a removed
// file to the next one. So a mapping keeps the inode in use while there is no descriptor. If mapping is refused, and on
// network mounts, whose servers do not know our mappings, size and times must be the same too. A file that was edited
// in place, renamed, linked or given another mode in the meantime is then rejected as well.
class RegularFile {
 public:
  // Follows links. Anything but a regular file (FIFO, socket, device, directory, /proc, /sys) is an error that says
  // what it is, and never blocks. Devices are not opened: a watchdog, for example, starts when it is opened.
  static RegularFile open(const char* path);
  // The same, but nothing if the path is a directory.
  static std::optional<RegularFile> open_unless_directory(const char* path);
  // `name` is relative to an open directory; `path` is what messages and reopen() use.
  static RegularFile open_at(int directory, const char* name, std::string path, bool may_be_link);
  // Takes a descriptor that nobody else reads through. The path leads to its file.
  static RegularFile adopt(Descriptor descriptor, std::string path);
  // A descriptor of our own for the caller's open file.
  static RegularFile duplicate(std::intptr_t descriptor);

  std::uint64_t size() const { return size_; }            // in bytes, when it was opened
  const std::string& path() const { return path_; }       // as given; empty for a duplicate
  const Identity& identity() const { return identity_; }  // when it was opened
  bool remote() const { return remote_; }                 // on a network or FUSE, where mapping is slow
  std::string shown() const;                              // for messages

  // Reads all n bytes. Throws Status::truncated if the file ends before, otherwise Status::read. Any thread.
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const;

  // -1 after release_descriptor().
  int descriptor() const { return descriptor_.get(); }

  // Opens the same file with more flags. Throws.
  Descriptor reopen(int extra_flags) const;

  // Whether the descriptor still leads to this file, and the file is no shorter. A host may have closed the descriptor.
  bool is_intact() const;

  // A hint to the page cache. It does nothing without a descriptor.
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const;

  // Closes the descriptor, if the file can be reopened. Only while no other thread uses the file. `mapped`: the caller
  // has mapped the file for as long as this object exists.
  void release_descriptor(bool mapped);

 private:
  static std::optional<RegularFile> try_adopt(Descriptor descriptor, std::string path);
  Descriptor reopen_path(int extra_flags) const;
  void require_same(const struct stat& status) const;
  void read_from(int descriptor, std::uint64_t offset, void* dst, std::size_t n) const;

  Descriptor descriptor_;
  Mapping pin_;
  std::string path_;
  std::string absolute_;  // the path to reopen: the working directory may have changed
  std::uint64_t size_ = 0;
  Identity identity_;
  bool inode_in_use_ = true;  // by the descriptor or a mapping of ours
  bool remote_ = false;
};

// ---- writing -----------------------------------------------------------------------------------------------------

// Each of these continues after interruptions and short writes, raises no signal, and returns 0 or the errno.
int write_all_at(int descriptor, std::uint64_t offset, const void* data, std::size_t n);
int write_all(int descriptor, const void* data, std::size_t n);
int sync_now(int descriptor);
int set_length(int descriptor, std::uint64_t size);  // ftruncate(2)

// Blocks the signals of failed writes in this thread: SIGPIPE of a pipe without a reader, SIGXFSZ of a file that would
// exceed RLIMIT_FSIZE. By default each ends the process. Here they are errors of the call only, EPIPE and EFBIG. A
// signal that was pending before stays pending.
//
// Linux sends both to the thread that writes, so they are blocked in this thread and taken before they are unblocked.
// A system that sends SIGXFSZ to the process, as macOS does, may deliver it to another thread.
class NoWriteSignals {
 public:
  NoWriteSignals();
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;
  ~NoWriteSignals();  // leaves errno unchanged

 private:
  sigset_t pending_;  // before
  sigset_t before_;   // the thread's mask
};

}  // namespace st::io
