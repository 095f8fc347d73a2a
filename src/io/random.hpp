// A number that the writer of a file cannot know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace st::io {

std::uint64_t random_seed();

// A seed for the hash table at this address. On Linux it takes no system call.
std::uint64_t hash_seed(const void* table);

}  // namespace st::io
