// The directory of a zip archive, and the content of its entries.
//
// This is a reader of its own, on zlib's inflate and crc32, because the archive libraries hide where an entry's bytes
// lie: only with these ranges can entries be found to overlap, and tensors be read from the archive in place.
// It is stricter than they are. The directory must end where the archive ends, each entry must have the same name,
// method, size and CRC in both of its headers, and no name may occur twice, so that every reader sees the same entries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "input.hpp"

namespace cli::legacy {

struct ZipEntry {
  std::string name;
  std::uint64_t header = 0;  // where its local header lies
  std::uint64_t begin = 0;   // where its bytes lie
  std::uint64_t packed = 0;  // how many they are in the archive
  std::uint64_t bytes = 0;   // and unpacked
  std::uint32_t crc = 0;
  bool deflated = false;
};

constexpr std::size_t kMostEntries = 1'000'000;
constexpr std::uint64_t kLongestDirectory = std::uint64_t{128} << 20;

// Whether this build can read archives (ST_ZIP).
bool reads_zip();

// Returns the entries in the order of their bytes, folders left out. Throws a Refusal.
std::vector<ZipEntry> read_zip_directory(const Input& archive);

}  // namespace cli::legacy
