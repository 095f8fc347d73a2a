// Tensors as DLPack describes them.
// SPDX-License-Identifier: Apache-2.0
#include "core/dlpack.hpp"

#include "guard.hpp"
#include "handles.hpp"
#include "options.hpp"

namespace st::capi {

namespace {

core::dlpack::Copy copy_of(std::uint32_t flags, const char* function) {
  refuse_unknown_flags(flags, ST_DLPACK_COPY | ST_DLPACK_NO_COPY, function);
  const bool always = (flags & ST_DLPACK_COPY) != 0;
  const bool never = (flags & ST_DLPACK_NO_COPY) != 0;
  if (always && never) fail(Status::argument, "ST_DLPACK_COPY and ST_DLPACK_NO_COPY exclude each other");
  return always ? core::dlpack::Copy::always : never ? core::dlpack::Copy::never : core::dlpack::Copy::if_needed;
}

}  // namespace

}  // namespace st::capi

using namespace st;
using namespace st::capi;

extern "C" {

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

}  // extern "C"
