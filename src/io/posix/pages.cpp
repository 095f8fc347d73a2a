// SPDX-License-Identifier: Apache-2.0
#include "io/posix/pages.hpp"

#include <sys/mman.h>

namespace st::io {

int map_without_reserve() { return 0; }

void advise_pages(void* begin, std::size_t bytes, Advice advice) {
  posix_madvise(begin, bytes, advice == Advice::will_need ? POSIX_MADV_WILLNEED : POSIX_MADV_DONTNEED);
}

bool copy_from_pages(const void* from, void* to, std::size_t n) { return copy_through_pipe(from, to, n); }

}  // namespace st::io
