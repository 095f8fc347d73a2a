// Looking at one tensor, and reading it.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/checked.hpp"
#include "guard.hpp"
#include "handles.hpp"

using namespace st;
using namespace st::capi;

extern "C" {

const char* st_tensor_name(const st_tensor* tensor, size_t* len) {
  const core::Tensor& found = tensor_of(tensor);
  if (len != nullptr) *len = found.name_bytes;
  return found.name_text;
}

st_dtype st_tensor_dtype(const st_tensor* tensor) { return static_cast<st_dtype>(tensor_of(tensor).dtype()); }

const char* st_tensor_dtype_name(const st_tensor* tensor) { return tensor_of(tensor).dtype_name(); }

const char* st_tensor_dtype_name_n(const st_tensor* tensor, size_t* len) {
  const char* const name = st_tensor_dtype_name(tensor);
  if (len != nullptr) *len = std::strlen(name);  // it holds no NUL
  return name;
}

size_t st_tensor_rank(const st_tensor* tensor) { return tensor_of(tensor).rank; }

const uint64_t* st_tensor_shape(const st_tensor* tensor) { return tensor_of(tensor).dims; }

// Opening the file has checked that the product fits.
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

}  // extern "C"
