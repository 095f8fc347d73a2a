// Elements of one dtype as those of another.
// SPDX-License-Identifier: Apache-2.0
#include "base/convert.hpp"

#include <limits>

#include "guard.hpp"

using namespace st;
using namespace st::capi;

extern "C" {

st_status st_convert(st_dtype from, const void* src, st_dtype to, void* dst, size_t n, st_error* err) {
  return guard(err, [&] {
    if (n > 0) require(src, "src");
    if (n > 0) require(dst, "dst");
    if (n > std::numeric_limits<size_t>::max() / sizeof(double)) fail(Status::overflow, "{} elements are too many", n);
    convert(dtype_from_number(from), static_cast<const std::byte*>(src), dtype_from_number(to),
            static_cast<std::byte*>(dst), n);
  });
}

}  // extern "C"
