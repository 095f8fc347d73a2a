// How the bytes of one source are best fetched in a bulk read, and the fetching.
//
// There are three paths. Cached bytes are copied. Bytes of a disk are read directly, around the page cache, which costs a
// tenth of the processor time and none of the cache. All other reads are buffered: of networks and callbacks, and where
// direct reads are refused.
//
// Positions are offsets plus the source's Traits::origin. Any thread may call these functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "io/source.hpp"

namespace st::io {

enum class ReadPath : std::uint8_t {
  cached,    // in the page cache, or in memory anyway
  buffered,  // through the page cache, from a network or from callbacks: slow, and worth many readers
  direct,    // around the page cache
};

class SourceReader {
 public:
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;
  virtual ~SourceReader() = default;

  const Source& source() const { return source_; }

  // Whether there is nothing to wait for in [begin, end), as of now.
  virtual bool is_cached(std::uint64_t begin, std::uint64_t end) = 0;

  // As of now. ReadPath::direct takes whole multiples of alignment() only.
  virtual ReadPath path_for(std::uint64_t begin, std::uint64_t end) = 0;

  // What positions, lengths and addresses of direct reads are multiples of, once path_for() has said direct.
  virtual std::uint64_t alignment() const { return 1; }

  // The reads are ascending, and neighbours make one request. Only the bytes before `needed_end` must exist. Returns
  // false if direct reads turn out not to work for this source or this memory: another path does.
  [[nodiscard]] virtual bool read_many(ReadPath path, std::span<const Read> reads, std::uint64_t needed_end) = 0;

  // Closes descriptors. No thread is reading, and none will.
  virtual void retire() {}

  // Closes the descriptors that no thread is using. They are reopened when they are needed.
  virtual void close_idle() {}

 protected:
  explicit SourceReader(const Source& source) : source_(source) {}

 private:
  const Source& source_;
};

}  // namespace st::io
