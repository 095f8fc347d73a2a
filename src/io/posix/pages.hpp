// Mapped pages: how a copy is mapped without memory for all of it, hints, and reading pages that may be gone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "io/advice.hpp"

namespace st::io {

// What mmap(2) is given, besides MAP_PRIVATE, so that a writable copy of a file does not need as much memory as the
// file is long.
int map_without_reserve();

void advise_pages(void* begin, std::size_t bytes, Advice advice);

// Copies from mapped pages; false instead of SIGBUS when they are gone. The kernel copies, and so meets a missing page
// as an error (EFAULT) where our own load would be a signal.
bool copy_from_pages(const void* from, void* to, std::size_t n);
bool copy_through_pipe(const void* from, void* to, std::size_t n);  // the same where there is nothing better

}  // namespace st::io
