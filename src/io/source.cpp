// The default reader, and the system-independent sources: memory and callbacks.
// SPDX-License-Identifier: Apache-2.0
#include "io/source.hpp"

#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace st::io {

namespace {

class DefaultReader final : public SourceReader {
 public:
  explicit DefaultReader(const Source& source) : SourceReader(source) {}

  bool is_cached(std::uint64_t /*begin*/, std::uint64_t /*end*/) override { return source().view() != nullptr; }

  ReadPath path_for(std::uint64_t begin, std::uint64_t end) override {
    return is_cached(begin, end) ? ReadPath::cached : ReadPath::buffered;
  }

  const std::byte* memory() const override { return source().view(); }

  bool read_many(ReadPath /*path*/, std::span<const Read> reads, std::uint64_t /*needed_end*/) override {
    const std::uint64_t origin = source().traits().origin;
    std::vector<Read> shifted(reads.begin(), reads.end());
    for (Read& read : shifted) read.offset -= origin;
    try {
      source().read_many(shifted);
    } catch (Error& error) {
      if (error.offset != kNowhere) error.offset += origin;
      throw;
    }
    return true;
  }
};

class MemorySource final : public Source {
 public:
  MemorySource(const void* data, std::uint64_t size, void (*release)(void* ctx), void* ctx)
      : Source(size), data_(static_cast<const std::byte*>(data)), release_(release), ctx_(ctx) {}
  ~MemorySource() override {
    if (release_ != nullptr) release_(ctx_);
  }

  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (n != 0) std::memcpy(dst, data_ + offset, n);
  }
  const std::byte* view() const override { return data_; }

 private:
  const std::byte* const data_;
  void (*const release_)(void* ctx);
  void* const ctx_;
};

class CallbackSource final : public Source {
 public:
  CallbackSource(const Callbacks& callbacks, std::uint64_t size, std::shared_ptr<const void> owner)
      : Source(size), owner_(std::move(owner)), callbacks_(callbacks) {}
  ~CallbackSource() override {
    if (callbacks_.close != nullptr) callbacks_.close(callbacks_.ctx);
  }

  void set_name(const char* name) { name_ = name; }
  const char* name() const override { return name_.c_str(); }

  Traits traits() const override {
    Traits traits;
    traits.serial = callbacks_.serial;
    traits.calls_back = true;
    traits.parallel = callbacks_.parallel;
    traits.chunk_bytes = callbacks_.chunk_bytes;
    traits.gap_bytes = callbacks_.gap_bytes;
    traits.joins_reads = callbacks_.gap_bytes != 0;
    return traits;
  }

  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (n == 0) return;
    std::unique_lock alone(reading_, std::defer_lock);
    if (callbacks_.serial) alone.lock();
    if (callbacks_.read != nullptr) return callbacks_.read(callbacks_, offset, dst, n);
    const std::int32_t code = callbacks_.read_at(callbacks_.ctx, offset, dst, n);
    if (code == 0) return;
    fail_at(Status::callback, offset, "the source's read_at returned {} for {} bytes at {}", code, n, offset);
  }

  // If the source states the gap for which a request is worth it, adjacent reads are one request.
  void read_many(std::span<const Read> reads) const override {
    if (callbacks_.gap_bytes == 0) return Source::read_many(reads);
    while (!reads.empty()) {
      std::size_t together = 1;
      std::size_t bytes = reads[0].bytes;
      for (; together < reads.size() && reads[together].offset == reads[0].offset + bytes; ++together) {
        bytes += reads[together].bytes;
      }
      read_adjacent(reads.first(together), bytes);
      reads = reads.subspan(together);
    }
  }

 private:
  void read_adjacent(std::span<const Read> reads, std::size_t bytes) const {
    if (reads.size() == 1) return read_at(reads[0].offset, reads[0].dst, bytes);
    const std::unique_ptr<std::byte[]> all(new std::byte[bytes]);
    read_at(reads[0].offset, all.get(), bytes);
    for (const Read& read : reads) std::memcpy(read.dst, all.get() + (read.offset - reads[0].offset), read.bytes);
  }

  const std::shared_ptr<const void> owner_;
  const Callbacks callbacks_;
  std::string name_;
  mutable std::mutex reading_;
};

}  // namespace

void Source::read_many(std::span<const Read> reads) const {
  for (const Read& read : reads) read_at(read.offset, read.dst, read.bytes);
}

std::unique_ptr<SourceReader> Source::open_reader(Cache /*cache*/) const {
  return std::make_unique<DefaultReader>(*this);
}

std::unique_ptr<Source> memory_source(const void* data, std::uint64_t size, void (*release)(void* ctx), void* ctx) {
  std::unique_ptr<Source> source(new (std::nothrow) MemorySource(data, size, release, ctx));
  if (source != nullptr) return source;
  if (release != nullptr) release(ctx);
  throw std::bad_alloc();
}

std::unique_ptr<Source> callback_source(const Callbacks& callbacks, std::uint64_t size, const char* name,
                                        std::shared_ptr<const void> owner) {
  std::unique_ptr<CallbackSource> source(new (std::nothrow) CallbackSource(callbacks, size, std::move(owner)));
  if (source == nullptr) {
    if (callbacks.close != nullptr) callbacks.close(callbacks.ctx);
    throw std::bad_alloc();
  }
  if (name != nullptr) source->set_name(name);
  return source;
}

}  // namespace st::io
