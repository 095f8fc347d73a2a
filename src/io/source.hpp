// Bytes that can be read at random: a file, part of a file, the caller's memory, the caller's callbacks, or whatever else
// implements this interface (docs/design.md, "Sources").
//
// view() is the zero-copy way and may raise SIGBUS when somebody truncates the file; read_at() is the safe way and
// throws instead. Once prepare() has returned a source does not change: any thread may call the const functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "io/advice.hpp"
#include "io/identity.hpp"

namespace st::io {

class SourceReader;

enum class Mode : std::uint8_t {
  automatic,      // map when a view is wanted; read where mapping is refused, or known to be slow (network, FUSE)
  map,            // read-only mapping
  copy_on_write,  // private writable mapping that reserves no memory
  read,           // no mapping
};

// What a bulk read does with the system's page cache.
enum class Cache : std::uint8_t { automatic, through, around };

// One read: where its bytes are in the source, and where they go.
struct Read {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::byte* dst = nullptr;
};

struct Traits {
  // Where byte 0 lies in what is read in aligned blocks, such as the file that the source is a part of.
  std::uint64_t origin = 0;
  // How many bytes arrive in the time that one request takes, where its answer has to be waited for. Unwanted bytes
  // between two wanted ranges are read along if they are fewer.
  std::uint64_t request_cost = std::uint64_t{128} << 10;
  // Whether read_many() makes one request of adjacent reads. If not, reading a gap between two of them saves nothing.
  bool joins_reads = false;
  // One thread at a time is let in to read, so that several are no faster.
  bool serial = false;
  // Reading calls a function of the caller, which may run other plans.
  bool calls_back = false;
};

class Source {
 public:
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  std::uint64_t size() const { return size_; }

  // As errors name it, and st_get_shard_path() returns it; empty if it has no name. Valid as long as the source.
  virtual const char* name() const { return ""; }

  // The file that the source reads, in the state in which it was opened. nullopt if the source is not a file.
  virtual std::optional<Identity> identity() const { return std::nullopt; }

  virtual Traits traits() const { return {}; }

  // All n bytes, which lie inside size(), or an error: Status::truncated when the source has become shorter,
  // Status::read otherwise.
  virtual void read_at(std::uint64_t offset, void* dst, std::size_t n) const = 0;

  // Several reads, ascending, as few requests as the source can make of them. By default one after another.
  virtual void read_many(std::span<const Read> reads) const;

  // For a bulk read, which lives no longer than the source. By default one that calls view() and read_many().
  virtual std::unique_ptr<SourceReader> open_reader(Cache cache) const;

  // Called once, before the source is shared: view() then works as the mode says. `may_keep_open` is false where so many
  // sources are open that this one gives back what the system has few of, such as a descriptor.
  virtual void prepare(Mode /*mode*/, bool /*may_keep_open*/) {}

  // The bytes themselves, or nullptr when they must be read, as where the file is shorter by now.
  virtual const std::byte* view() const { return nullptr; }

  // Whether what view() gives may be written to, which changes nothing else.
  virtual bool view_is_writable() const { return false; }

  virtual void advise(std::uint64_t /*offset*/, std::uint64_t /*n*/, Advice /*advice*/) const {}

  // Whether somebody may have been writing to these bytes while they were read just now.
  virtual bool changed_lately() const { return false; }

  // Keeps edits in place away as long as it lives. nullptr where that cannot be had.
  virtual std::shared_ptr<const void> lock_out_edits() const { return nullptr; }

 protected:
  explicit Source(std::uint64_t size) : size_(size) {}

 private:
  const std::uint64_t size_;
};

}  // namespace st::io
