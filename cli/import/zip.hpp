// The directory of a zip archive.
//
// Archive libraries hide the offsets of entries. This reader needs them to detect overlapping entries, and to read
// tensors directly from the archive. It is also stricter so that every other reader sees the same entries in an
// archive that it accepts:
//
// - The directory must end where the archive ends.
// - Both headers of an entry must have the same name, method, sizes and CRC, even in the 64-bit fields.
// - Names must be unique.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint.hpp"

namespace cli::importer {

struct ZipEntry {
  std::string name;
  std::uint64_t header = 0;          // offset of its local header
  std::uint64_t begin = 0;           // offset of its bytes
  std::uint64_t packed = 0;          // size in the archive
  std::uint64_t bytes = 0;           // size after unpacking
  std::optional<std::uint32_t> crc;  // none if the archive has no checksums
  bool deflated = false;
};

constexpr std::size_t kMostEntries = 1'000'000;
constexpr std::uint64_t kLongestDirectory = std::uint64_t{128} << 20;

// Returns whether this build can read archives (ST_ZIP).
bool reads_zip();

// Returns the entries sorted by offset, without directories. Throws an ImportError.
std::vector<ZipEntry> read_zip_directory(const Input& archive, Budget& budget);

inline Storage storage_of(const ZipEntry& entry) {
  return {entry.name, entry.begin, entry.packed, entry.bytes, entry.deflated, entry.crc};
}

}  // namespace cli::importer
