// A regular file that is read with pread.
//
// The descriptor may be given back while nothing is read, and is opened again when something is: a model of 1,500
// shards would otherwise not fit into the usual limit of 1,024. A file opened again must be the same file (device
// and inode), or it is an error, never a stranger's bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace st::io {

class PlainFile {
 public:
  // Follows links. Anything but a regular file (FIFO, socket, device, folder, /proc, /sys) is an error that says
  // what it is, and never blocks.
  static PlainFile open(const char* path);
  static PlainFile open_at(int folder, const char* path, std::string shown_path);
  // Another descriptor for the caller's file.
  static PlainFile duplicate(std::intptr_t descriptor);

  PlainFile() = default;
  PlainFile(PlainFile&& other) noexcept;
  PlainFile& operator=(PlainFile&& other) noexcept;
  ~PlainFile();

  std::uint64_t size() const { return size_; }      // when it was opened
  const std::string& path() const { return path_; }  // as given; empty for a duplicate
  bool remote() const { return remote_; }            // network or FUSE: mapping is slow there

  // All n bytes or an error: Status::truncated when the file ends before, Status::read otherwise.
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const;

  // Calls back with an open descriptor of this file; it stays valid for the length of the call.
  int descriptor() const { return descriptor_.load(std::memory_order_acquire); }  // -1 while closed
  int reopen(int extra_flags) const;  // a descriptor of its own, which the caller closes; throws

  void close() const;  // give the descriptor back, if the file can be opened again
  bool can_reopen() const { return !path_.empty(); }

 private:
  mutable std::atomic<int> descriptor_{-1};
  std::string path_;
  std::string absolute_;  // what reopen() opens: the working directory may have changed
  std::uint64_t size_ = 0;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  bool remote_ = false;
};

}  // namespace st::io
