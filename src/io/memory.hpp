// Memory from the system: for headers and tables, for tensor buffers, and for mapped files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace st::io {

// ---- headers and tables ------------------------------------------------------------------------------------------

// Allocates large memory on huge pages, if the system has them. Page faults on 4 KiB pages took half of the time to
// open a file of 100,000 tensors in a fresh process. Below a few megabytes there are few faults, and rounding up to 2
// MiB would cost more. Throws std::bad_alloc.
void* allocate(std::size_t bytes, std::size_t alignment);
void deallocate(void* memory, std::size_t bytes, std::size_t alignment);

// ---- buffers for tensors -----------------------------------------------------------------------------------------

// When data is read into fresh memory, page faults take more time than the disk. Huge pages avoid most of that. A
// buffer that is filled at once should get its pages while it is filled, because the processor then clears them in its
// cache. Other buffers should be prefaulted.
enum class Pages : std::uint8_t { at_once, as_they_are_touched };

inline constexpr std::size_t kBufferAlignment = std::size_t{2} << 20;

// Returns zeroed memory, aligned to kBufferAlignment. threads 0: choose. Throws Status::no_memory.
std::byte* new_buffer(std::uint64_t bytes, Pages pages, unsigned threads);
void free_buffer(std::byte* buffer) noexcept;  // null is ignored

// The system-specific parts of new_buffer(). The first returns zeroed, aligned memory whose pages are allocated at
// first touch. The second prefaults pages, or returns false if they must be touched instead.
std::byte* reserve_buffer(std::uint64_t bytes);
bool populate_buffer(std::byte* begin, std::size_t bytes);

// Excludes the buffer from processes forked later, if the system can. Otherwise the first write to a page after a fork
// copies it, and a device that uses the page may keep using the other copy.
void keep_from_children(std::byte* begin, std::size_t bytes) noexcept;

// Asks the system to place untouched pages on this NUMA node. A hint. Ignores -1, an unknown node.
void prefer_node(std::byte* begin, std::size_t bytes, int node);

// ---- mapped files ------------------------------------------------------------------------------------------------

// Hints about the caller's next accesses.
enum class Advice : std::uint8_t { will_need, dont_need };

enum class MapKind : std::uint8_t { read_only, copy_on_write };

// A mapping of a part of a file, created immediately or on first use.
class Mapping {
 public:
  Mapping() = default;
  // Maps `file`, a descriptor or a HANDLE. If the system refuses, returns an empty mapping and sets `os_error`. A
  // mapping of 0 bytes is empty and not an error.
  static Mapping of(std::intptr_t file, std::uint64_t offset, std::uint64_t size, MapKind kind, int& os_error);
  // Returns a read-only mapping that is created on first use; size > 0.
  static Mapping later(std::uint64_t size);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Returns nullptr if the mapping does not exist yet.
  std::byte* data() const { return data_.load(std::memory_order_acquire); }
  // Creates the mapping, unless another thread already has. Returns nullptr if the system refuses. Any thread may call
  // this.
  std::byte* made(std::intptr_t file, std::uint64_t offset) const;
  bool writable() const { return kind_ == MapKind::copy_on_write; }
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const;

 private:
  // Each system implements the next three and advise(). Mappings begin at multiples of granularity(), in the file and
  // in memory. map() returns nullptr if the system refuses.
  static std::size_t granularity();
  static void* map(std::intptr_t file, std::uint64_t begin, std::size_t size, MapKind kind, int& os_error);
  static void unmap(void* begin, std::size_t size);
  void release();

  mutable std::atomic<std::byte*> data_ = nullptr;  // the first byte of the range, which need not begin a page
  std::uint64_t size_ = 0;
  MapKind kind_ = MapKind::read_only;
};

}  // namespace st::io
