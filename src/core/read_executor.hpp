// Reads one batch with as few system calls as possible.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/read_scheduler.hpp"

namespace st::core {

// Is told what was read. Any thread may call it.
class ReadListener {
 public:
  virtual void arrived(std::size_t entry, std::uint64_t bytes) = 0;
  virtual bool stopped() const = 0;  // true: read nothing more

 protected:
  ~ReadListener() = default;
};

// Reads the batches of one thread. It keeps its memory from one batch to the next.
class ReadExecutor {
 public:
  explicit ReadExecutor(ReadListener& listener) : listener_(listener) {}

  void execute(const ReadBatch& batch);

 private:
  struct Copy {
    std::uint64_t from = 0;  // a position
    std::uint64_t bytes = 0;
    std::byte* dst = nullptr;
  };

  void read_ranges(io::SourceReader& reader, io::ReadPath path, const std::vector<ReadRequest>& ranges);
  bool try_ranges(io::SourceReader& reader, io::ReadPath path, const std::vector<ReadRequest>& ranges);
  void add_range(const ReadRequest& range, std::uint64_t alignment);
  void fill_up_to(std::uint64_t end);
  void read_runs(const ReadBatch& batch);
  void read_window(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin, std::uint64_t bytes);
  std::byte* scratch(std::uint64_t bytes);

  ReadListener& listener_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> pages_{nullptr, nullptr};
  std::uint64_t pages_bytes_ = 0;

  // The read that is being prepared covers the file from window_ to cursor_.
  std::uint64_t window_ = 0;
  std::uint64_t cursor_ = 0;
  std::byte* bounce_ = nullptr;
  std::vector<io::Read> reads_;
  std::vector<Copy> copies_;
  std::vector<ReadRequest> joined_;
  std::vector<ReadRequest> one_;
};

}  // namespace st::core
