// SPDX-License-Identifier: Apache-2.0
#include "format/name_index.hpp"

#include <xxhash.h>

namespace st::format {

std::uint64_t hash_name(std::string_view name, std::uint64_t seed) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

}  // namespace st::format
