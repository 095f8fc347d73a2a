// SPDX-License-Identifier: Apache-2.0
#include "io/callback_source.hpp"

#include <mutex>
#include <new>

#include "base/error.hpp"

namespace st::io {

namespace {

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

std::unique_ptr<Source> callback_source(const Callbacks& callbacks, std::uint64_t size) {
  std::unique_ptr<Source> source(new (std::nothrow) CallbackSource(callbacks, size));
  if (source != nullptr) return source;
  if (callbacks.close != nullptr) callbacks.close(callbacks.ctx);
  throw std::bad_alloc();
}

}  // namespace st::io
