// SPDX-License-Identifier: Apache-2.0
#include "io/memory_source.hpp"

#include <cstring>
#include <new>

namespace st::io {

namespace {

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

}  // namespace

std::unique_ptr<Source> memory_source(const void* data, std::uint64_t size, void (*release)(void* ctx), void* ctx) {
  std::unique_ptr<Source> source(new (std::nothrow) MemorySource(data, size, release, ctx));
  if (source != nullptr) return source;
  if (release != nullptr) release(ctx);
  throw std::bad_alloc();
}

}  // namespace st::io
