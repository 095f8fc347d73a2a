// Random-access bytes: a file, a part of a file, the caller's memory, the caller's callbacks, or another implementation
// of this interface (docs/design.md, "Sources").
//
// view() gives zero-copy access. Touching its bytes may raise SIGBUS if another process truncates the file. read_at()
// throws instead. After prepare(), a source is immutable, and any thread may call the const functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "io/memory.hpp"

namespace st::io {

class FileSource;
class SourceReader;

// Identifies one state of one file. It changes with each write, rename, link, replacement, or change of access rights.
struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified[2] = {};  // seconds, nanoseconds
  std::int64_t changed[2] = {};

  bool operator==(const Identity& other) const {
    return same_bytes(other) && changed[0] == other.changed[0] && changed[1] == other.changed[1];
  }
  bool operator!=(const Identity& other) const { return !(*this == other); }
  // Returns false if a write in between changed the length or the time of modification. Renames, links and changes of
  // access do not count.
  bool same_bytes(const Identity& other) const {
    return same_file(other) && size == other.size && modified[0] == other.modified[0] &&
           modified[1] == other.modified[1];
  }
  // Returns true for any two states of the same file, for example before and after a write.
  bool same_file(const Identity& other) const { return device == other.device && inode == other.inode; }
};

enum class Mode : std::uint8_t {
  automatic,      // map at the first view; read if mapping is refused or slow (network, FUSE)
  map,            // read-only mapping
  copy_on_write,  // private writable mapping that reserves no memory
  read,           // no mapping
};

// How a bulk read uses the page cache. through: buffered reads. around: direct reads. mapped: like automatic, but
// copies short runs of cached slices from the mapping.
enum class Cache : std::uint8_t { automatic, through, around, mapped };

// One read: where its bytes are in the source, and where they go.
struct Read {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::byte* dst = nullptr;
};

// What has happened to a file since it was opened.
enum class Overwritten : std::uint8_t { no, yes, unknown };

struct Traits {
  // The position of the source's byte 0 in the underlying file. Direct reads are aligned in that file.
  std::uint64_t origin = 0;
  // Request latency expressed in bytes (latency × bandwidth). A smaller gap between two ranges is also read (and
  // dropped).
  std::uint64_t request_cost = std::uint64_t{128} << 10;
  // read_many() merges adjacent reads into one request. If false, reading across a gap saves nothing.
  bool joins_reads = false;
  // Only one thread can read at a time, so more threads are no faster.
  bool serial = false;
  // Reading calls a user-supplied callback, which may run other plans.
  bool calls_back = false;
  // What a source states about itself, for example because it is on a network. 0: not stated.
  unsigned parallel = 0;          // concurrent reads that serve it best
  std::uint64_t chunk_bytes = 0;  // per request. A bulk read keeps this size, however long a request takes.
  std::uint64_t gap_bytes = 0;    // the longest gap between two ranges that one request also reads
};

class Source {
 public:
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  std::uint64_t size() const { return size_; }

  // The name for errors and st_get_shard_path(); empty if there is none. Valid until the source is destroyed.
  virtual const char* name() const { return ""; }
  // Returns nullptr unless the source is a file. Replaces dynamic_cast so that -fno-rtti works.
  virtual const FileSource* as_file() const { return nullptr; }

  // The underlying file and its state at open. nullopt if the source is not a file.
  virtual std::optional<Identity> identity() const { return std::nullopt; }

  // Whether the file was overwritten in place during or after opening. If so, the bytes read may be a mixture. A file
  // that was replaced at its path was not overwritten, because the source still has the old bytes. Unknown if the
  // source no longer has a descriptor and the path no longer leads to the file.
  virtual Overwritten overwritten() const { return Overwritten::no; }

  virtual Traits traits() const { return {}; }

  // Reads all n bytes, which are inside size(). Throws Status::truncated if the source has become shorter, otherwise
  // Status::read.
  virtual void read_at(std::uint64_t offset, void* dst, std::size_t n) const = 0;

  // Performs several reads, given in ascending order, with as few requests as possible. The default reads them one by
  // one.
  virtual void read_many(std::span<const Read> reads) const;

  // Returns a reader for a bulk read, valid until the source is destroyed. The default reader calls view() and
  // read_many().
  virtual std::unique_ptr<SourceReader> open_reader(Cache cache) const;

  // Called once, before the source is shared. Sets up view() according to the mode. If `may_keep_open` is false, many
  // sources are open, and this one should give up scarce resources such as its descriptor.
  virtual void prepare(Mode /*mode*/, bool /*may_keep_open*/) {}

  // Returns the bytes in memory, or nullptr if they must be read, for example because the file has been truncated.
  virtual const std::byte* view() const { return nullptr; }

  // Whether the caller may write to the view. Such writes are private.
  virtual bool view_is_writable() const { return false; }

  virtual void advise(std::uint64_t /*offset*/, std::uint64_t /*n*/, Advice /*advice*/) const {}

  // Whether another process may have been writing to these bytes during the read that has just ended.
  virtual bool changed_lately() const { return false; }

  // Whether its name was a symbolic link. If so, replacing the file does not change the times of the link's directory.
  virtual bool is_linked() const { return false; }

  // While the returned object exists, no in-place edit can start. nullptr if the source cannot be locked.
  virtual std::shared_ptr<const void> lock_out_edits() const { return nullptr; }

 protected:
  explicit Source(std::uint64_t size) : size_(size) {}

 private:
  const std::uint64_t size_;
};

// How a bulk read gets its bytes. A direct read takes a tenth of the CPU time of a buffered read, and does not change
// the page cache.
enum class ReadPath : std::uint8_t {
  cached,    // copied from the page cache or from memory
  buffered,  // from a disk through the page cache, or from a network or callback: slow, so worth several threads
  direct,    // from a disk, bypassing the page cache
};

// Reads one source in a bulk read, and chooses the path for each range. Positions are offsets plus Traits::origin. Any
// thread may call these functions.
class SourceReader {
 public:
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;
  virtual ~SourceReader() = default;

  const Source& source() const { return source_; }

  // Whether [begin, end) is currently in memory.
  virtual bool is_cached(std::uint64_t begin, std::uint64_t end) = 0;

  // Returns the best path at this moment. ReadPath::direct requires multiples of alignment().
  virtual ReadPath path_for(std::uint64_t begin, std::uint64_t end) = 0;

  // The bytes of the source, if runs on the cached path should be copied from there. nullptr: they must be read.
  virtual const std::byte* memory() const { return nullptr; }

  // Positions, lengths and addresses of direct reads must be multiples of this. Valid after path_for() has returned
  // direct.
  virtual std::uint64_t alignment() const { return 1; }

  // Performs reads, given in ascending order, and merges adjacent ones into one request. Only the bytes before
  // `needed_end` must exist. Returns false if direct reads do not work for this source or this memory. The caller then
  // uses another path.
  [[nodiscard]] virtual bool read_many(ReadPath path, std::span<const Read> reads, std::uint64_t needed_end) = 0;

  // Closes descriptors. No thread may read during or after this call.
  virtual void retire() {}

  // Closes the descriptors that no thread is using. They are reopened on demand.
  virtual void close_idle() {}

 protected:
  explicit SourceReader(const Source& source) : source_(source) {}

 private:
  const Source& source_;
};

// ---- the sources -------------------------------------------------------------------------------------------------

// Makes a source of the caller's memory. `release`, which may be nullptr, is called exactly once, even if this throws.
// The bytes must stay valid until then.
std::unique_ptr<Source> memory_source(const void* data, std::uint64_t size, void (*release)(void* ctx), void* ctx);

struct Callbacks {
  // Returns 0 if all n bytes were read, otherwise any other number. Called from any number of threads, unless `serial`
  // is set.
  std::int32_t (*read_at)(void* ctx, std::uint64_t offset, void* dst, std::size_t n) = nullptr;
  void (*close)(void* ctx) = nullptr;  // may be nullptr
  void* ctx = nullptr;
  bool serial = false;  // read_at is called by one thread at a time
  // Instead of read_at: throws. It calls `function`, whose type it knows.
  void (*read)(const Callbacks& callbacks, std::uint64_t offset, void* dst, std::size_t n) = nullptr;
  void (*function)() = nullptr;
  // As in Traits.
  unsigned parallel = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t gap_bytes = 0;
};

// Makes a source of the caller's callbacks. `close` is called exactly once, even if this throws. Copies `name`, which
// may be nullptr: see Source::name(). `owner` is released after `close`.
std::unique_ptr<Source> callback_source(const Callbacks& callbacks, std::uint64_t size, const char* name = nullptr,
                                        std::shared_ptr<const void> owner = nullptr);

// The first files of a model keep their descriptor so that they can be mapped later. The rest are mapped at open, or
// reopened by path for each read.
inline constexpr std::size_t kMostKeptOpen = 64;

// Opens the file at this path; returns nullptr if the path is a directory. Follows links. Anything other than a regular
// file (FIFO, socket, device, /proc, /sys) is rejected with an error that names its kind, and never blocks.
std::unique_ptr<Source> file_source_unless_directory(const char* path);

// Duplicates the caller's descriptor and makes a source of `size` bytes starting at `offset`. size 0: to the end of the
// file.
std::unique_ptr<Source> file_source_of_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size);

}  // namespace st::io
