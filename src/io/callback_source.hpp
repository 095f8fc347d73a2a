// The caller's callbacks as a source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/source.hpp"

namespace st::io {

struct Callbacks {
  // 0 when all n bytes are there, or else any other number. From any number of threads, unless it is serial.
  std::int32_t (*read_at)(void* ctx, std::uint64_t offset, void* dst, std::size_t n) = nullptr;
  void (*close)(void* ctx) = nullptr;  // may be nullptr
  void* ctx = nullptr;
  bool serial = false;  // read_at must not be called by two threads at once
};

// `close` is called exactly once, also when this throws.
std::unique_ptr<Source> callback_source(const Callbacks& callbacks, std::uint64_t size);

}  // namespace st::io
