// Small pieces of a file, gathered so that a hundred thousand of them are not as many system calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "io/atomic_file.hpp"

namespace st::core {

// Pieces in the order of the file, from one thread: neighbours become one write.
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

// Pieces in any order, from any number of threads: kept until the room for them is used up, then written in the order
// of the file. Not for files that are written in order.
class PutBuffer {
 public:
  explicit PutBuffer(const io::AtomicFile& file) : file_(file) {}

  // How many bytes will be added at most, which bounds the memory.
  void expect(std::uint64_t bytes) { expected_ = bytes; }

  // The data is copied, or written at once where it is large or memory is short. Throws also what goes wrong with
  // pieces that were added before.
  void add(std::uint64_t offset, const void* data, std::size_t n);
  void flush();

 private:
  struct Piece {
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
  std::vector<Piece> pieces_;
};

}  // namespace st::core
