// A regular file that is read with pread.
//
// The descriptor may be given back while nothing is read, and the path is opened again when something is: a model
// of 1,500 shards would otherwise not fit into the usual limit of 1,024. A file opened again must be the same file, or
// that is an error: the bytes are never those of another file.
//
// Device and inode tell files apart only as long as the inode is in use, for filesystems give the number of a removed
// file to the next one. So a mapping keeps the inode in use while there is no descriptor. Where mapping is refused, and
// on network mounts, whose servers know nothing of our mappings, size and times must be the same too. There a file that
// was edited in place, renamed, linked or given another mode meanwhile is refused as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "io/advice.hpp"
#include "io/identity.hpp"
#include "io/mapping.hpp"
#include "io/posix/descriptor.hpp"

struct stat;

namespace st::io {

// Opens what fstatat() has just found to be a regular file. Waits for another process to give up its lease on the file
// (Samba, NFS delegations), as a plain open does, but not for the other end of a FIFO that has taken the file's place.
// EAGAIN if the lease outlasts the caller's patience. The kernel ends a lease after 45 seconds, unless the administrator
// has set another time.
constexpr std::chrono::seconds kLeasePatience(120);
Descriptor open_regular(int folder, const char* path, int flags, std::chrono::seconds patience = kLeasePatience);

class PlainFile {
 public:
  // Follows links. Anything but a regular file (FIFO, socket, device, folder, /proc, /sys) is an error that says
  // what it is, and never blocks. Devices are not opened: a watchdog, for one, begins to run when it is.
  static PlainFile open(const char* path);
  // The same, but nothing when the path is a folder.
  static std::optional<PlainFile> open_unless_folder(const char* path);
  // `name` relative to an open folder; `path` is what messages and reopen() use.
  static PlainFile open_at(int folder, const char* name, std::string path, bool may_be_link);
  // A descriptor of our own for the caller's open file.
  static PlainFile duplicate(std::intptr_t descriptor);

  std::uint64_t size() const { return size_; }            // in bytes, when it was opened
  const std::string& path() const { return path_; }       // as given; empty for a duplicate
  const Identity& identity() const { return identity_; }  // when it was opened
  bool remote() const { return remote_; }                 // network or FUSE, where mapping is slow

  // All n bytes or an error: Status::truncated when the file ends before, Status::read otherwise. Any thread.
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const;

  // -1 when it was given back.
  int descriptor() const { return descriptor_.get(); }

  // Another descriptor for the same file, opened with more flags. Throws.
  Descriptor reopen(int extra_flags) const;
  // The same, but an error where the path leads elsewhere by now.
  Descriptor reopen_path(int extra_flags) const;

  // Whether the descriptor still leads to this file, and the file is no shorter: a host may have closed the descriptor.
  bool is_intact() const;

  // A hint to the page cache; without a descriptor there is nobody to tell.
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const;

  // Gives the descriptor back, if the file can be opened again. Only while nobody else uses the file. `mapped`: the
  // caller has mapped the file for as long as this object lives.
  void release_descriptor(bool mapped);

 private:
  static std::optional<PlainFile> try_adopt(Descriptor descriptor, std::string path);
  static PlainFile adopt(Descriptor descriptor, std::string path);
  void require_same(const struct stat& status) const;
  void read_from(int descriptor, std::uint64_t offset, void* dst, std::size_t n) const;
  std::string shown() const;

  Descriptor descriptor_;
  Mapping pin_;
  std::string path_;
  std::string absolute_;  // what is opened again: the working directory may have changed
  std::uint64_t size_ = 0;
  Identity identity_;
  bool inode_in_use_ = true;  // by us: by the descriptor or a mapping
  bool remote_ = false;
};

}  // namespace st::io
