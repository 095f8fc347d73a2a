// Options for reading a header of any format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace st::format {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;        // docs/format.md 1.1, inclusive
inline constexpr std::size_t kPadding = 64;                          // readable zero bytes after every text
inline constexpr std::size_t kWindowBytes = std::size_t{16} * 1024;  // bytes of JSON indexed at a time

enum class Rules : std::uint8_t {
  standard,   // docs/format.md 1.3, the column "default"
  strict,     // also rejects deviations from the format's text that real writers produce
  reference,  // exactly the reference's verdicts
};

struct HeaderOptions {
  Rules rules = Rules::standard;
  bool unknown_dtypes = false;  // list them as raw bytes instead of rejecting the file
  std::uint64_t max_bytes = kMaxHeaderBytes;
  std::uint64_t seed = 0;       // keys the name index
  const void* owner = nullptr;  // copied into every Tensor; not used in this layer
  bool index_names = true;      // false: tensors may have no index, and duplicate names may go unnoticed
  std::size_t window_bytes = kWindowBytes;
};

// Returns the longest header, and the longest index of shards, that these options accept.
inline std::uint64_t header_limit(const HeaderOptions& options) { return std::min(options.max_bytes, kMaxHeaderBytes); }

// The bytes of a file that are its header.
struct HeaderExtent {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

}  // namespace st::format
