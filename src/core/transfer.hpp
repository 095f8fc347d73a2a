// Carrying out one piece: the fewest system calls that bring its bytes to their destinations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/pieces.hpp"

namespace st::core {

// Who the bytes are for. Any thread.
class Receiver {
 public:
  virtual void arrived(std::size_t entry, std::uint64_t bytes) = 0;
  virtual bool stopped() const = 0;  // nothing more is wanted

 protected:
  ~Receiver() = default;
};

// One reader's memory, kept from piece to piece.
class Transfer {
 public:
  explicit Transfer(Receiver& receiver) : receiver_(receiver) {}

  void carry_out(const Piece& piece);

 private:
  struct Copy {
    std::uint64_t from = 0;  // in the file
    std::uint64_t bytes = 0;
    std::byte* dst = nullptr;
  };

  void read_parts(io::BulkFile& file, io::Way way, const std::vector<Part>& parts);
  bool try_parts(io::BulkFile& file, io::Way way, const std::vector<Part>& parts);
  void add_part(const Part& part, std::uint64_t alignment);
  void fill_up_to(std::uint64_t end);
  void read_runs(const Piece& piece);
  void read_window(io::BulkFile& file, io::Way way, std::uint64_t begin, std::uint64_t bytes);
  std::byte* scratch(std::uint64_t bytes);

  Receiver& receiver_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> pages_{nullptr, nullptr};
  std::uint64_t pages_bytes_ = 0;

  // The read being put together: what lies from window_ on, up to cursor_.
  std::uint64_t window_ = 0;
  std::uint64_t cursor_ = 0;
  std::byte* bounce_ = nullptr;
  std::vector<io::Segment> segments_;
  std::vector<Copy> copies_;
  std::vector<Part> joined_;
  std::vector<Part> one_;
};

}  // namespace st::core
