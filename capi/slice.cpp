// Parts of tensors.
// SPDX-License-Identifier: Apache-2.0
#include "format/slice.hpp"

#include <algorithm>

#include "core/plan.hpp"
#include "guard.hpp"
#include "handles.hpp"

using namespace st;
using namespace st::capi;

extern "C" {

st_status st_tensor_slice(const st_tensor* tensor, const int64_t* begin, const int64_t* end, const int64_t* step,
                          uint64_t* shape, uint64_t* bytes, const void** contiguous, st_error* err) {
  return guard(err, [&] {
    require(tensor, "tensor");
    const core::Tensor& found = tensor_of(tensor);
    const format::Slice slice = format::slice(found, begin, end, step);
    if (shape != nullptr) std::copy(slice.shape.begin(), slice.shape.end(), shape);
    if (bytes != nullptr) *bytes = slice.bytes;
    if (contiguous != nullptr) *contiguous = core::view(found, slice);
  });
}

st_status st_tensor_read_slice(const st_tensor* tensor, const int64_t* begin, const int64_t* end, const int64_t* step,
                               void* dst, size_t dst_size, st_error* err) {
  return guard(err, [&] {
    require(tensor, "tensor");
    const core::Tensor& found = tensor_of(tensor);
    core::read_slice(found, format::slice(found, begin, end, step), dst, dst_size);
  });
}

}  // extern "C"
