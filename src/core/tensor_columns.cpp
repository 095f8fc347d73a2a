// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_columns.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "io/memory.hpp"

namespace st::core {

namespace {

constexpr std::size_t kAlignment = 64;

// Assigns each column its place in a block. Used twice, for the same columns in the same order: first without a block,
// to compute its size. Wider elements come first, so no padding is needed.
class Places {
 public:
  explicit Places(std::byte* block) : block_(block) {}

  template <class T>
  T* take(std::uint64_t count) {
    std::byte* const place = block_ == nullptr ? nullptr : block_ + bytes_;
    // Cannot overflow: the tensors, their names and their shapes are in memory.
    bytes_ += count * sizeof(T);  // NOLINT(bugprone-sizeof-expression): T may be a pointer
    return reinterpret_cast<T*>(place);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* block_;
  std::uint64_t bytes_ = 0;
};

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t name_bytes = 0;
  std::uint64_t dims = 0;
};

Counts count(const Checkpoint& file) {
  Counts counts{file.count_tensors()};
  for (std::size_t i = 0; i < counts.tensors; ++i) {
    const Tensor& tensor = *file.tensor_at(i);
    counts.name_bytes += std::uint64_t{tensor.name_bytes} + 1;
    counts.dims += tensor.rank;
  }
  return counts;
}

struct Columns {
  Columns(Places& places, const Counts& counts, bool with_data)
      : name_offsets(places.take<std::uint64_t>(counts.tensors + 1)),
        dim_offsets(places.take<std::uint64_t>(counts.tensors + 1)),
        offsets(places.take<std::uint64_t>(counts.tensors)),
        sizes(places.take<std::uint64_t>(counts.tensors)),
        dims(places.take<std::uint64_t>(counts.dims)),
        tensors(places.take<const Tensor*>(counts.tensors)),
        data(with_data ? places.take<const void*>(counts.tensors) : nullptr),
        dtypes(places.take<std::int32_t>(counts.tensors)),
        ranks(places.take<std::uint32_t>(counts.tensors)),
        shards(places.take<std::uint32_t>(counts.tensors)),
        names(places.take<char>(counts.name_bytes)) {}

  void fill(const Checkpoint& file, std::size_t count);

  std::uint64_t* name_offsets;
  std::uint64_t* dim_offsets;
  std::uint64_t* offsets;
  std::uint64_t* sizes;
  std::uint64_t* dims;
  const Tensor** tensors;
  const void** data;
  std::int32_t* dtypes;
  std::uint32_t* ranks;
  std::uint32_t* shards;
  char* names;
};

void Columns::fill(const Checkpoint& file, std::size_t count) {
  std::uint64_t name_bytes = 0;
  std::uint64_t all_dims = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& tensor = *file.tensor_at(i);
    name_offsets[i] = name_bytes;
    std::memcpy(names + name_bytes, tensor.name_text, tensor.name_bytes);
    name_bytes += tensor.name_bytes;
    names[name_bytes++] = '\0';
    dim_offsets[i] = all_dims;
    std::copy_n(tensor.dims, tensor.rank, dims + all_dims);
    all_dims += tensor.rank;
    dtypes[i] = static_cast<std::int32_t>(tensor.dtype());
    ranks[i] = tensor.rank;
    offsets[i] = shard_of(tensor).offset_of(tensor);
    sizes[i] = tensor.bytes();
    shards[i] = static_cast<std::uint32_t>(shard_of(tensor).number);
    tensors[i] = &tensor;
    if (data != nullptr) data[i] = view(tensor);
  }
  name_offsets[count] = name_bytes;
  dim_offsets[count] = all_dims;
}

}  // namespace

TensorColumns::TensorColumns(const Checkpoint& file, Views views) : count(file.count_tensors()) {
  const Counts counts = core::count(file);
  Places sizing(nullptr);
  static_cast<void>(Columns(sizing, counts, views == Views::all));
  if (sizing.bytes() > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max())) throw std::bad_alloc();
  block_bytes_ = static_cast<std::size_t>(sizing.bytes());
  block_ = static_cast<std::byte*>(io::allocate(block_bytes_, kAlignment));
  Places placing(block_);
  Columns columns(placing, counts, views == Views::all);
  columns.fill(file, count);
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
  tensors = columns.tensors;
}

TensorColumns::~TensorColumns() { io::deallocate(block_, block_bytes_, kAlignment); }

}  // namespace st::core
