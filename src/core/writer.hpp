// Writes a new file. First, tensors are declared. Then their bytes are put, whole or in parts, in any order and from
// any number of threads. Finally the complete file appears at its path.
//
// Invalid declarations are reported before the target is touched, write errors before it is replaced. After the first
// failed write, the file cannot be completed, so every later call throws the same error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "core/shard.hpp"
#include "core/small_writes.hpp"
#include "core/write_progress.hpp"
#include "core/written_ranges.hpp"
#include "format/header.hpp"
#include "format/table.hpp"
#include "io/atomic_file.hpp"

namespace st::core {

struct WriteOptions {
  io::CreateOptions create;
  bool keep_order = false;  // data in order of declaration, not in the reference's order
  Format format = Format::safetensors;
  std::uint64_t data_alignment = 0;  // 0: 8, the minimum
  std::uint64_t header_reserve = 0;
  WriteCallback callback;
};

class Writer {
 public:
  Writer();

  // ---- declaring: a call that throws does not change the writer

  void set_metadata(std::string_view key, std::string_view value);  // the last value of a key wins
  void copy_metadata(std::span<const MetadataPair> pairs);          // all of them, or none
  void keep_empty_metadata();                                       // write the metadata map even if it is empty

  // Returns the number of the tensor. finish() reads `data`. If `data` is nullptr, the bytes must be given to put().
  std::size_t add(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape, const void* data);
  // Declares a copy of a tensor of an open file, which must stay open until finish() returns.
  std::size_t add(std::string_view name, const Tensor& tensor);

  // ---- writing

  void begin(const char* path, const WriteOptions& options);
  // Any number of threads may call this, but not during finish(). Each byte may be put only once.
  void put(std::size_t number, std::uint64_t at, const void* data, std::size_t n) const;
  void finish();

 private:
  enum class State : std::uint8_t { declaring, begun, finished, failed };

  struct Declared {
    std::string_view text;                 // its name, in arena_
    std::span<const std::uint64_t> shape;  // in arena_
    std::uint64_t bytes = 0;
    std::uint64_t begin = 0;  // in the file, after begin()
    const void* data = nullptr;
    const Tensor* source = nullptr;
    Dtype dtype = Dtype::unknown;
    bool given = false;  // data or source is set: no bytes are expected from put()

    std::string_view name() const { return text; }
    ByteRange range() const { return {begin, begin + bytes}; }
  };

  std::size_t declare(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape);
  std::string_view keep(std::string_view text);
  std::span<const std::uint64_t> keep(std::span<const std::uint64_t> shape);
  void make_room();
  std::vector<std::uint32_t> data_order(const WriteOptions& options) const;
  std::string lay_out(const WriteOptions& options);

  void claim(std::size_t number, ByteRange range) const;
  void put_in_order(std::size_t number, std::uint64_t offset, const void* data, std::size_t n) const;
  void write_given(std::uint64_t stop) const;
  template <class Write>
  void in_pieces(std::uint64_t offset, std::uint64_t n, const Write& write) const;
  void require_complete() const;
  void require_sources_unchanged() const;

  void require_state(State wanted, const char* call) const;
  void give_up(const Error& error) const noexcept;
  template <class Body>
  void or_give_up(const Body& body) const;

  std::pmr::monotonic_buffer_resource arena_;
  std::vector<Declared> tensors_;
  NameIndex<Declared> index_;
  std::size_t index_room_ = 0;
  std::uint64_t seed_ = 0;
  std::map<std::string_view, std::string_view> metadata_;  // in arena_
  bool has_metadata_ = false;

  std::vector<std::uint32_t> order_;  // numbers of tensors in data order
  std::uint64_t file_size_ = 0;
  io::AtomicFile file_;
  mutable WrittenRanges written_;    // the bytes given to put()
  mutable PutBuffer small_{file_};   // the buffered part of these bytes, not yet written
  mutable std::mutex stream_mutex_;  // for streams, which take one write at a time
  mutable WriteProgress progress_;
  mutable std::size_t next_given_ = 0;  // index in order_: given tensors before it are written

  mutable std::atomic<State> state_{State::declaring};
  mutable std::mutex failure_mutex_;
  mutable std::optional<Error> failure_;  // the first
};

}  // namespace st::core
