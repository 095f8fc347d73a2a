// How a header is to be read, whatever its format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/header_length.hpp"

namespace st::format {

inline constexpr std::size_t kPadding = 64;                          // readable zero bytes behind every text
inline constexpr std::size_t kWindowBytes = std::size_t{16} * 1024;  // of JSON whose structure is found at once

enum class Rules : std::uint8_t {
  standard,   // docs/format.md 1.3, the column "default"
  strict,     // refuses also what real writers do beside the format's text
  reference,  // exactly the reference's verdicts
};

struct HeaderOptions {
  Rules rules = Rules::standard;
  bool unknown_dtypes = false;  // list them as raw bytes instead of refusing the file
  std::uint64_t max_bytes = kMaxHeaderBytes;
  std::uint64_t seed = 0;       // keys the name index
  const void* owner = nullptr;  // goes into every Tensor: whoever has the bytes; this layer does not look at it
  bool index_names = true;      // false: tensors may be left without an index, and a name that is given twice unseen
  std::size_t window_bytes = kWindowBytes;
};

}  // namespace st::format
