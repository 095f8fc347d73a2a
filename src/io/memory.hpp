// Memory from the system: for headers and tables, for buffers that tensors are read into, and mapped files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace st::io {

// ---- headers and tables ------------------------------------------------------------------------------------------

// Allocates on huge pages if the system has them and the memory is large. Half of the time to open a file of 100,000
// tensors in a fresh process was spent on the faults of its 4 KiB pages. Below a few megabytes the pages are few, and
// rounding up to 2 MiB would cost more. Throws std::bad_alloc.
void* allocate(std::size_t bytes, std::size_t alignment);
void deallocate(void* memory, std::size_t bytes, std::size_t alignment);

// ---- buffers for tensors -----------------------------------------------------------------------------------------

// Reading into memory that is touched for the first time spends more time on page faults than on the disk. Huge pages
// alone avoid most of that. A buffer that is filled at once is best allocated while it is filled, since the pages are
// cleared in the processor's cache. Otherwise it is best prefaulted.
enum class Pages : std::uint8_t { at_once, as_they_are_touched };

inline constexpr std::size_t kBufferAlignment = std::size_t{2} << 20;

// Returns zeroed memory, aligned to kBufferAlignment. threads 0: choose. Throws Status::no_memory.
std::byte* new_buffer(std::uint64_t bytes, Pages pages, unsigned threads);
void free_buffer(std::byte* buffer) noexcept;  // null is ignored

// The system-specific parts of new_buffer(). The first returns zeroed, aligned memory whose pages are allocated at
// first touch. The second prefaults pages, or returns false if they must be touched instead.
std::byte* reserve_buffer(std::uint64_t bytes);
bool populate_buffer(std::byte* begin, std::size_t bytes);

// Leaves the buffer out of processes that are forked later, if the system can. Otherwise the first write to a page
// after a fork copies it, and a device that holds the address of the page may keep using the other copy.
void keep_from_children(std::byte* begin, std::size_t bytes) noexcept;

// Asks the system to take pages that have not been touched from the memory of this NUMA node. A hint.
void prefer_node(std::byte* begin, std::size_t bytes, int node);

// ---- mapped files ------------------------------------------------------------------------------------------------

// What a caller knows about the bytes that it will read.
enum class Advice : std::uint8_t { will_need, dont_need };

enum class MapKind : std::uint8_t { read_only, copy_on_write };

// A mapping of a part of a file, made at once or at the first use.
class Mapping {
 public:
  Mapping() = default;
  // Maps `file`, a descriptor or a HANDLE. Returns an empty mapping if the system refuses; `os_error` is then the
  // reason. A mapping of 0 bytes is empty and not an error.
  static Mapping of(std::intptr_t file, std::uint64_t offset, std::uint64_t size, MapKind kind, int& os_error);
  // Returns a read-only mapping that is not yet made; size > 0.
  static Mapping later(std::uint64_t size);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // nullptr while it is not made.
  std::byte* data() const { return data_.load(std::memory_order_acquire); }
  // Makes a mapping that is not yet made, unless another thread was first. Returns nullptr if the system refuses. Any
  // thread.
  std::byte* made(std::intptr_t file, std::uint64_t offset) const;
  bool writable() const { return kind_ == MapKind::copy_on_write; }
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const;

 private:
  // Each system has the next three, and advise(). Mappings begin at multiples of granularity(), in the file and in
  // memory. map() returns nullptr if the system refuses.
  static std::size_t granularity();
  static void* map(std::intptr_t file, std::uint64_t begin, std::size_t size, MapKind kind, int& os_error);
  static void unmap(void* begin, std::size_t size);
  void release();

  mutable std::atomic<std::byte*> data_ = nullptr;  // the first byte of the range, which need not begin a page
  std::uint64_t size_ = 0;
  MapKind kind_ = MapKind::read_only;
};

}  // namespace st::io
