// One file of a bulk read: how its bytes are best fetched, and the fetching.
//
// Three ways. From the page cache, bytes are copied; from a disk they are read around the cache (O_DIRECT), which
// costs a tenth of the processor time and none of the cache; from a network or FUSE mount, or where the system refuses
// the second, they are read through the cache. Everything that can be refused (direct reads, opening the file once
// more) degrades, at the latest to Source::read_at, which always works.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "io/posix/descriptor.hpp"
#include "io/source.hpp"

namespace st::io {

enum class Cache : std::uint8_t { automatic, through, around };

enum class Way : std::uint8_t {
  copy,    // in the page cache, or in memory anyway
  wait,    // through the page cache, from a disk or a network: slow, and worth many readers
  direct,  // around the page cache
};

struct Segment {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Offsets are those of the underlying file: Source::base() is where the source's byte 0 is. Any thread.
class BulkFile {
 public:
  BulkFile(const Source& source, Cache cache) : source_(source), cache_(cache) {}
  BulkFile(BulkFile&&) = delete;
  ~BulkFile();

  // Whether there is nothing to wait for, as of now.
  bool hot(std::uint64_t begin, std::uint64_t end);
  // As of now. The direct way takes whole multiples of alignment() only.
  Way way(std::uint64_t begin, std::uint64_t end);

  // What offsets, lengths and addresses of direct reads are multiples of. After way() has said direct.
  std::uint64_t alignment() const { return alignment_; }

  // Fills the segments one after another with the bytes from `offset` on; only the first `needed` must exist. False
  // when the direct way turns out not to work for this file or this memory: then the other one does.
  [[nodiscard]] bool read(Way way, std::uint64_t offset, std::span<const Segment> segments, std::uint64_t needed);

  // No more reads will begin: descriptors go back to the system as soon as they are idle.
  void retire();
  // For now; they are opened again when they are needed.
  void close_idle();

 private:
  class Borrowed;

  Descriptor open_reader();
  bool can_go_around();
  void open_direct();
  void close_direct();
  void read_source(std::uint64_t offset, std::span<const Segment> segments, std::uint64_t needed) const;
  bool read_descriptor(int descriptor, std::uint64_t offset, std::span<const Segment> segments, std::uint64_t needed,
                       bool direct);
  bool direct_refused(int os_error);

  const Source& source_;
  const Cache cache_;
  std::mutex mutex_;
  std::vector<Descriptor> idle_;  // one descriptor per reader: FUSE serves a descriptor's reads one at a time
  std::size_t readers_ = 0;       // such descriptors, idle or borrowed
  bool retired_ = false;
  bool direct_tried_ = false;
  Descriptor direct_;  // shared by all readers, for it has no read-ahead that they could disturb
  unsigned direct_readers_ = 0;
  std::uint64_t alignment_ = 0;
  std::atomic<bool> direct_works_{true};
};

}  // namespace st::io
