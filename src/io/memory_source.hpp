// The caller's memory as a source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "io/source.hpp"

namespace st::io {

// `release`, which may be nullptr, is called exactly once, also when this throws: the bytes stay until then.
std::unique_ptr<Source> memory_source(const void* data, std::uint64_t size, void (*release)(void* ctx), void* ctx);

}  // namespace st::io
