// The first eight bytes of a safetensors or bintensors file: the length of the header behind them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace st::format {

inline constexpr std::uint64_t kLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // docs/format.md 1.1, inclusive
inline constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;

// Little-endian, of at least 8 bytes.
std::uint64_t load_length(std::span<const char> bytes);
void store_length(char* to, std::uint64_t length);

// The smallest header length of at least `length` that puts the data, 8 bytes further, on a multiple of `alignment`.
// Throws Status::header_size beyond what any reader takes.
std::uint64_t padded_length(std::uint64_t length, std::uint64_t alignment);

}  // namespace st::format
