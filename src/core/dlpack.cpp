// SPDX-License-Identifier: Apache-2.0
#include "core/dlpack.hpp"

#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "core/checkpoint.hpp"
#include "io/memory.hpp"

namespace st::core::dlpack {

namespace {

constexpr std::size_t kCopyAlignment = 64;  // a cache line, which JAX expects

std::uint8_t code_of(Dtype dtype) {
  const std::uint8_t code = info(dtype).dlpack;
  if (code == kNoDlpackCode) fail(Status::unsupported, "DLPack has no type code for an unknown dtype");
  return code;
}

std::size_t alignment_of(Dtype dtype) {
  if (dtype == Dtype::C64) return alignof(float);
  return info(dtype).bits < 8 ? 1 : info(dtype).bits / 8;
}

struct FreeCopy {
  std::size_t bytes = 0;
  void operator()(void* copy) const { io::deallocate(copy, bytes, kCopyAlignment); }
};
using CopiedBytes = std::unique_ptr<void, FreeCopy>;

CopiedBytes copied_bytes(const Tensor& tensor) {
  if (tensor.bytes() > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max())) throw std::bad_alloc();
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  CopiedBytes copy(io::allocate(bytes, kCopyAlignment), {bytes});
  read(tensor, copy.get(), bytes);
  return copy;
}

// The memory that a DLPack struct points to.
struct Contents {
  std::vector<std::int64_t> shape_and_strides;
  std::unique_ptr<const Checkpoint, Release> checkpoint;  // null if the data is a copy
  CopiedBytes copy;
  std::uint64_t flags = 0;
};

std::int64_t as_signed(const Tensor& tensor, std::uint64_t number) {
  if (number > static_cast<std::uint64_t>(INT64_MAX)) {
    fail(Status::unsupported, "tensor {}: the shape does not fit DLPack's signed 64-bit integers",
         in_quotes(tensor.name()));
  }
  return static_cast<std::int64_t>(number);
}

std::vector<std::int64_t> shape_and_strides(const Tensor& tensor) {
  const std::size_t rank = tensor.rank;
  std::vector<std::int64_t> both(2 * rank);
  std::uint64_t stride = 1;
  for (std::size_t d = rank; d-- > 0;) {
    both[d] = as_signed(tensor, tensor.dims[d]);
    both[rank + d] = as_signed(tensor, stride);
    if (!checked_mul(stride, tensor.dims[d], stride)) stride = UINT64_MAX;
  }
  return both;
}

const char* why_not_viewed(const Tensor& tensor, const std::byte* data, bool may_be_read_only) {
  if (data == nullptr) return "has no view";
  if (reinterpret_cast<std::uintptr_t>(data) % alignment_of(tensor.dtype()) != 0) return "is not aligned in the file";
  if (!may_be_read_only && !shard_of(tensor).source->view_is_writable()) return "is read-only";
  return nullptr;
}

void fill(DlTensor& shown, Contents& contents, const Tensor& tensor, Copy copy, bool may_be_read_only) {
  shown.dtype = {code_of(tensor.dtype()), info(tensor.dtype()).bits, 1};
  contents.shape_and_strides = shape_and_strides(tensor);
  shown.ndim = static_cast<std::int32_t>(tensor.rank);  // fits, because a header limits the rank
  shown.shape = contents.shape_and_strides.data();
  shown.strides = shown.shape + tensor.rank;
  if (tensor.bytes() == 0) return;
  const std::byte* const data = copy == Copy::always ? nullptr : view(tensor);
  const char* const why_not = why_not_viewed(tensor, data, may_be_read_only);
  if (why_not == nullptr) {
    shard_of(tensor).checkpoint->retain();
    contents.checkpoint.reset(shard_of(tensor).checkpoint);
    contents.flags = shard_of(tensor).source->view_is_writable() ? 0 : kReadOnly;
    shown.data = const_cast<std::byte*>(data);
    return;
  }
  if (copy == Copy::never) {
    fail(Status::state, "tensor {} {}, and ST_DLPACK_NO_COPY forbids a copy", in_quotes(tensor.name()), why_not);
  }
  contents.copy = copied_bytes(tensor);
  contents.flags = kIsCopied;
  shown.data = contents.copy.get();
}

template <class Struct>
struct Export {
  Struct shown;
  Contents contents;
};

template <class Struct>
std::unique_ptr<Export<Struct>> make(const Tensor& tensor, Copy copy, bool may_be_read_only) {
  auto made = std::make_unique<Export<Struct>>();
  fill(made->shown.tensor, made->contents, tensor, copy, may_be_read_only);
  made->shown.owner = made.get();
  made->shown.deleter = [](Struct* self) { delete static_cast<Export<Struct>*>(self->owner); };
  return made;
}

}  // namespace

ManagedVersioned* export_versioned(const Tensor& tensor, Copy copy) {
  auto made = make<ManagedVersioned>(tensor, copy, /*may_be_read_only=*/true);
  made->shown.flags = made->contents.flags;
  return &made.release()->shown;
}

Managed* export_unversioned(const Tensor& tensor, Copy copy) {
  return &make<Managed>(tensor, copy, /*may_be_read_only=*/false).release()->shown;
}

}  // namespace st::core::dlpack
