// From the first bytes of a file to a checked table.
//
// Two steps, so that nothing is allocated before the announced length has been held against the limit and the
// file: measure() looks at the first bytes and says how long the header is; read_header() turns the header into
// a Table or throws. Neither makes a system call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/structure.hpp"
#include "format/table.hpp"

namespace st::format {

inline constexpr std::uint64_t kLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // docs/format.md 1.1, inclusive

enum class Rules : std::uint8_t {
  standard,   // docs/format.md 1.3, the column "ours by default"
  strict,     // refuses also what real writers do beside the format's text
  reference,  // exactly the reference's verdicts
};

struct HeaderOptions {
  Rules rules = Rules::standard;
  bool unknown_dtypes = false;  // list them as raw bytes instead of refusing the file
  std::uint64_t max_bytes = kMaxHeaderBytes;
  std::uint64_t seed = 0;        // keys the name index
  const Shard* shard = nullptr;  // goes into every Tensor
  std::size_t window_bytes = kWindowBytes;
};

// `prefix` holds the first bytes of the file, at least min(64, file_size). Returns N, the bytes of the header after the length.
std::uint64_t measure(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options);

// `header` are the N bytes, followed by kPadding zero bytes. They stay the home of the names and are written to:
// see restore_header(). The table is in data order, every rule checked, the index built.
void read_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// Copies the header as the file has it to `out` (header.size() bytes): puts back what read_header() overwrote.
void restore_header(std::span<const char> header, const Table& table, char* out);

}  // namespace st::format
