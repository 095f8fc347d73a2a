// The engine of bulk reads: readers that take pieces from a queue until it is empty, one fails or all are told to stop.
//
// docs/engine.md draws the decisions: pieces.cpp cuts, io/bulk_file.hpp chooses the way, transfer.cpp reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "base/parallel_for.hpp"
#include "core/pieces.hpp"
#include "core/transfer.hpp"
#include "io/bulk_file.hpp"

namespace st::core {

struct ReadOptions {
  unsigned threads = 0;  // 0: choose; 1: the calling one alone
  io::Cache cache = io::Cache::automatic;
  std::uint64_t chunk_bytes = 0;  // 0: choose; others are brought into 64 KiB to 1 GiB
  std::uint64_t gap_bytes = 0;    // 0: choose
  HostPool pool;
  void* ctx = nullptr;
  std::int32_t (*progress)(void* ctx, std::uint64_t done, std::uint64_t total) = nullptr;  // non-zero cancels
};

// What the engine asks and tells the one whose reads these are. Any thread.
class BulkReader : public Receiver {
 public:
  virtual const Tensor& tensor(std::size_t entry) const = 0;
  virtual void report() = 0;  // a good moment to tell how far it has come; from one thread at a time
  virtual void stop() = 0;    // stopped() from now on

 protected:
  ~BulkReader() = default;
};

// `wants` sorted by (file, begin), none empty. Throws the first error, which names file, tensor and offset; returns
// early when stopped.
void read_all(std::span<const Want> wants, std::deque<io::BulkFile>& files, const ReadOptions& options,
              BulkReader& reader);

}  // namespace st::core
