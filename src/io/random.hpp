// A number that the writer of a file cannot know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace st::io {

std::uint64_t random_seed();

// One for a hash table: asks the system once in the life of the process, so that small files open without.
std::uint64_t hash_seed(const void* table);

}  // namespace st::io
