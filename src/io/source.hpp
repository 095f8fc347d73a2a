// Bytes that can be read at random: a file, part of a file, the caller's memory, or the caller's callbacks.
//
// view() is the zero-copy way and may raise SIGBUS when somebody truncates the file; read_at() is the safe way and
// throws instead. A Source is immutable once made: read_at() may be called from any number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "io/posix/mapping.hpp"
#include "io/posix/plain_file.hpp"

namespace st::io {

enum class Mode : std::uint8_t {
  automatic,      // map when a view is wanted; read where mapping is refused, or known to be slow (network, FUSE)
  map,            // read-only mapping
  copy_on_write,  // private writable mapping that reserves no memory
  read,           // no mapping
};

struct MemoryBytes {
  void (*release)(void* ctx) = nullptr;
  void* ctx = nullptr;
};

struct CallbackBytes {
  std::int32_t (*read_at)(void* ctx, std::uint64_t offset, void* dst, std::size_t n) = nullptr;
  void (*close)(void* ctx) = nullptr;
  void* ctx = nullptr;
};

class Source {
 public:
  static Source memory(const void* data, std::uint64_t size, void (*release)(void*), void* ctx);
  static Source callbacks(const CallbackBytes& callbacks, std::uint64_t size);
  static Source file(PlainFile file, std::uint64_t base, std::uint64_t size);

  Source() = default;
  Source(Source&& other) noexcept;
  Source& operator=(Source&& other) noexcept;
  ~Source();

  std::uint64_t size() const { return size_; }

  // Throws Status::read, and Status::truncated when the file has become shorter.
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const;

  // Maps a file's bytes as the mode says. Where automatic finds a network mount or is refused, view() is nullptr.
  // Memory has a view and callbacks have none, whatever the mode.
  void map(Mode mode);
  // The same as automatic, but not before view() is called; the descriptor is kept for it.
  void map_at_first_view();

  bool is_mapped() const { return mapping_.data() != nullptr; }

  // The bytes themselves, or nullptr when they must be read, as where the file is shorter by now. Any thread.
  const std::byte* view() const;

  // The file behind, or nullptr: for those who do their own I/O on it.
  const PlainFile* file() const { return std::get_if<PlainFile>(&bytes_); }
  std::uint64_t base() const { return base_; }  // where in that file our byte 0 is

  // Gives a file's descriptor back unless a mapping is to be made of it; read_at() opens the path again when it must.
  // Before the Source is shared.
  void rest();

  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const;

 private:
  void drop();
  void read_file(const PlainFile& plain, std::uint64_t offset, void* dst, std::size_t n) const;

  std::variant<std::monostate, MemoryBytes, CallbackBytes, PlainFile> bytes_;
  Mapping mapping_;
  Mapping original_;  // beside one that the caller may have written to, when there is no descriptor
  bool maps_later_ = false;
  const std::byte* memory_ = nullptr;
  std::uint64_t base_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace st::io
