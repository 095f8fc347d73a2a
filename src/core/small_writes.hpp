// Buffers small writes to a file, so many writes need few system calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "io/atomic_file.hpp"

namespace st::core {

// For writes in file order from one thread. Merges adjacent writes.
class Gathering {
 public:
  explicit Gathering(const io::AtomicFile& file) : file_(file) {}

  void add(std::uint64_t offset, const void* data, std::size_t n);
  void flush();

 private:
  bool make_room();

  const io::AtomicFile& file_;
  std::vector<std::byte> bytes_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

// For writes in any order from any number of threads. Buffers them until the buffer is full, then writes them in file
// order. Not for streams.
class PutBuffer {
 public:
  explicit PutBuffer(const io::AtomicFile& file) : file_(file) {}

  // Announces that at most this many bytes will be added, so that a small file needs less memory.
  void expect(std::uint64_t bytes) { expected_ = bytes; }

  // Buffers a copy of the data. Writes it immediately if it is large, or if there is no memory. May throw errors of
  // earlier buffered writes.
  void add(std::uint64_t offset, const void* data, std::size_t n);
  void flush();

 private:
  struct Write {
    std::uint64_t offset = 0;
    std::uint32_t at = 0;  // in bytes_
    std::uint32_t n = 0;
  };

  bool make_room(std::size_t n);
  void keep(std::uint64_t offset, const void* data, std::size_t n);
  void write_out();

  const io::AtomicFile& file_;
  std::uint64_t expected_ = 0;
  std::mutex mutex_;
  std::vector<std::byte> bytes_;
  std::vector<Write> writes_;
};

}  // namespace st::core
