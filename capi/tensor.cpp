// One tensor: its entry in the header, its data, its slices, and DLPack.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/checked.hpp"
#include "core/dlpack.hpp"
#include "core/plan.hpp"
#include "format/slice.hpp"
#include "guard.hpp"
#include "handles.hpp"
#include "options.hpp"

using namespace st;
using namespace st::capi;

namespace {

#ifndef ST_MINIMAL
core::dlpack::Copy copy_of(std::uint32_t flags, const char* function) {
  refuse_unknown_flags(flags, ST_DLPACK_COPY | ST_DLPACK_NO_COPY, function);
  const bool always = (flags & ST_DLPACK_COPY) != 0;
  const bool never = (flags & ST_DLPACK_NO_COPY) != 0;
  if (always && never) fail(Status::argument, "ST_DLPACK_COPY and ST_DLPACK_NO_COPY are mutually exclusive");
  return always ? core::dlpack::Copy::always : never ? core::dlpack::Copy::never : core::dlpack::Copy::if_needed;
}
#endif

}  // namespace

extern "C" {

const char* st_tensor_name(const st_tensor* tensor, size_t* len) {
  const core::Tensor& found = tensor_of(tensor);
  if (len != nullptr) *len = found.name_bytes;
  return found.name_text;
}

st_dtype st_tensor_dtype(const st_tensor* tensor) { return static_cast<st_dtype>(tensor_of(tensor).dtype()); }

const char* st_tensor_dtype_name(const st_tensor* tensor) { return tensor_of(tensor).dtype_name(); }

const char* st_tensor_dtype_name_n(const st_tensor* tensor, size_t* len) {
  return with_length(st_tensor_dtype_name(tensor), len);
}

size_t st_tensor_rank(const st_tensor* tensor) { return tensor_of(tensor).rank; }

const uint64_t* st_tensor_shape(const st_tensor* tensor) { return tensor_of(tensor).dims; }

// The product cannot overflow: opening the file has checked it.
uint64_t st_tensor_elements(const st_tensor* tensor) { return element_count(tensor_of(tensor).shape()).value_or(0); }

uint64_t st_tensor_bytes(const st_tensor* tensor) { return tensor_of(tensor).bytes(); }

uint64_t st_tensor_offset(const st_tensor* tensor) {
  const core::Tensor& found = tensor_of(tensor);
  return core::shard_of(found).offset_of(found);
}

size_t st_tensor_shard(const st_tensor* tensor) { return core::shard_of(tensor_of(tensor)).number; }

const void* st_tensor_data(const st_tensor* tensor) { return core::view(tensor_of(tensor)); }

st_status st_tensor_read(const st_tensor* tensor, void* dst, size_t dst_size, st_error* err) {
  return guard(err, [&] {
    require(tensor, "tensor");
    core::read(tensor_of(tensor), dst, dst_size);
  });
}

void st_tensor_advise(const st_tensor* const* tensors, size_t count, st_advice advice) {
  const io::Advice given = advice == ST_ADVICE_DONT_NEED ? io::Advice::dont_need : io::Advice::will_need;
  if (tensors == nullptr || (advice != ST_ADVICE_DONT_NEED && advice != ST_ADVICE_WILL_NEED)) return;
  for (size_t i = 0; i < count; ++i) core::advise(tensor_of(tensors[i]), given);
}

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

#ifndef ST_MINIMAL
st_status st_tensor_to_dlpack(const st_tensor* tensor, uint32_t flags, struct DLManagedTensorVersioned** out,
                              st_error* err) {
  return guard(err, [&] {
    require(tensor, "tensor");
    require(out, "out");
    auto* const made = core::dlpack::export_versioned(tensor_of(tensor), copy_of(flags, "st_tensor_to_dlpack"));
    *out = reinterpret_cast<DLManagedTensorVersioned*>(made);
  });
}

st_status st_tensor_to_dlpack_legacy(const st_tensor* tensor, uint32_t flags, struct DLManagedTensor** out,
                                     st_error* err) {
  return guard(err, [&] {
    require(tensor, "tensor");
    require(out, "out");
    auto* const made =
        core::dlpack::export_unversioned(tensor_of(tensor), copy_of(flags, "st_tensor_to_dlpack_legacy"));
    *out = reinterpret_cast<DLManagedTensor*>(made);
  });
}
#endif

}  // extern "C"
