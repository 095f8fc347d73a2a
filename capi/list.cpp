// All tensors of a file in one call.
// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_columns.hpp"
#include "guard.hpp"
#include "handles.hpp"
#include "options.hpp"

namespace st::capi {

namespace {

using core::TensorColumns;

// A base rather than a member, so that the pointer which the caller has leads back to the whole.
struct List : st_tensor_list {
  TensorColumns columns;

  List(const core::Checkpoint& file, std::uint32_t given_flags)
      : st_tensor_list{},
        columns(file, (given_flags & ST_LIST_DATA) != 0 ? TensorColumns::Views::all : TensorColumns::Views::none) {
    struct_size = sizeof(st_tensor_list);
    flags = given_flags;
    count = columns.count;
    names = columns.names;
    name_offsets = columns.name_offsets;
    dtypes = columns.dtypes;
    ranks = columns.ranks;
    dims = columns.dims;
    dim_offsets = columns.dim_offsets;
    offsets = columns.offsets;
    sizes = columns.sizes;
    shards = columns.shards;
    data = columns.data;
    tensors = reinterpret_cast<const st_tensor* const*>(columns.tensors);
  }
};

}  // namespace

}  // namespace st::capi

using namespace st;
using namespace st::capi;

extern "C" {

st_status st_list_tensors(const st_file* file, uint32_t flags, st_tensor_list** out, st_error* err) {
  return guard(err, [&] {
    require(file, "file");
    require(out, "out");
    refuse_unknown_flags(flags, ST_LIST_DATA, "st_list_tensors");
    *out = new List(file_of(file), flags);
  });
}

void st_tensor_list_free(st_tensor_list* list) { delete static_cast<List*>(list); }

}  // extern "C"
