// The default reader, and the system-independent sources: memory and callbacks.
// SPDX-License-Identifier: Apache-2.0
#include "io/source.hpp"

#include <cstring>
#include <mutex>
#include <new>
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
  CallbackSource(const Callbacks& callbacks, std::uint64_t size) : Source(size), callbacks_(callbacks) {}
  ~CallbackSource() override {
    if (callbacks_.close != nullptr) callbacks_.close(callbacks_.ctx);
  }

  Traits traits() const override {
    Traits traits;
    traits.serial = callbacks_.serial;
    traits.calls_back = true;
    return traits;
  }

  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (n == 0) return;
    std::unique_lock alone(reading_, std::defer_lock);
    if (callbacks_.serial) alone.lock();
    const std::int32_t code = callbacks_.read_at(callbacks_.ctx, offset, dst, n);
    if (code == 0) return;
    fail_at(Status::callback, offset, "the source's read_at returned {} for {} bytes at {}", code, n, offset);
  }

 private:
  const Callbacks callbacks_;
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

std::unique_ptr<Source> callback_source(const Callbacks& callbacks, std::uint64_t size) {
  std::unique_ptr<Source> source(new (std::nothrow) CallbackSource(callbacks, size));
  if (source != nullptr) return source;
  if (callbacks.close != nullptr) callbacks.close(callbacks.ctx);
  throw std::bad_alloc();
}

}  // namespace st::io
