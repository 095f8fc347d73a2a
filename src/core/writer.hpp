// A file in the making: tensors are declared, then their bytes come, whole or in pieces, in any order, from many
// threads, and the file appears under its path when all are there.
//
// Everything that can be wrong with what was declared is refused before the target is touched, and everything that
// can be wrong with the bytes before it is replaced. The first failure on the way ends the writer: what it has
// written cannot become a file any more, so the rest is refused with the same words.
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
#include "core/coverage.hpp"
#include "core/shard.hpp"
#include "core/small_writes.hpp"
#include "format/header.hpp"
#include "format/name_index.hpp"
#include "io/atomic_file.hpp"

namespace st::core {

struct WriteOptions {
  io::CreateOptions create;
  bool keep_order = false;  // data in the order of declaration, not in the reference's
  Format format = Format::safetensors;
  std::uint64_t data_alignment = 0;  // 0: 8, the least
  std::uint64_t header_reserve = 0;
};

class Writer {
 public:
  Writer();

  // ---- declaring

  void set_metadata(std::string_view key, std::string_view value);  // the last value of a key counts
  void keep_empty_metadata();                                       // a map without a pair, unless pairs are set

  // `data`, or nullptr when the bytes come through put(). It is read in finish(). -> the number of the tensor
  std::size_t add(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape, const void* data);
  // The bytes of a tensor of an open file, which must stay open until finish().
  std::size_t add(std::string_view name, const Tensor& tensor);

  // ---- writing

  void begin(const char* path, const WriteOptions& options);
  // Any thread, except while finish() runs. Each byte comes once.
  void put(std::size_t number, std::uint64_t at, const void* data, std::size_t n) const;
  void finish();

 private:
  enum class State : std::uint8_t { declaring, begun, finished, failed };

  struct Declared {
    std::string_view text;                 // its name, in arena_
    std::span<const std::uint64_t> shape;  // in arena_
    std::uint64_t bytes = 0;
    std::uint64_t begin = 0;  // in the file, once begun
    const void* data = nullptr;
    const Tensor* source = nullptr;
    Dtype dtype = Dtype::unknown;
    bool given = false;  // its bytes do not come through put()

    std::string_view name() const { return text; }
    Range range() const { return {begin, begin + bytes}; }
  };

  std::size_t declare(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape);
  std::string_view keep(std::string_view text);
  std::span<const std::uint64_t> keep(std::span<const std::uint64_t> shape);
  void make_room();
  std::vector<std::uint32_t> data_order(const WriteOptions& options) const;
  std::string lay_out(const WriteOptions& options);

  void claim(std::size_t number, Range piece) const;
  void put_in_order(std::size_t number, std::uint64_t offset, const void* data, std::size_t n) const;
  void write_given(std::uint64_t stop) const;
  void require_complete() const;

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
  mutable Coverage coverage_;           // what came through put()
  mutable PutBuffer small_{file_};      // and what of it is not written yet
  mutable std::mutex stream_mutex_;     // one piece at a time to a stream
  mutable std::size_t next_given_ = 0;  // in order_: given tensors before it are written

  mutable std::atomic<State> state_{State::declaring};
  mutable std::mutex failure_mutex_;
  mutable std::optional<Error> failure_;  // the first
};

}  // namespace st::core
