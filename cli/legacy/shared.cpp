// SPDX-License-Identifier: Apache-2.0
#include "shared.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "refusal.hpp"

namespace cli::legacy {
namespace {

using Group = std::vector<const Tensor*>;

// Tensors with elements, by storage and then by place.
std::vector<const Tensor*> by_place(const Checkpoint& checkpoint) {
  std::vector<const Tensor*> tensors;
  for (const Tensor& tensor : checkpoint.tensors) {
    if (tensor.bytes > 0) tensors.push_back(&tensor);
  }
  std::sort(tensors.begin(), tensors.end(), [](const Tensor* a, const Tensor* b) {
    return std::tie(a->storage, a->begin, a->end, a->name) < std::tie(b->storage, b->begin, b->end, b->name);
  });
  return tensors;
}

// A tensor belongs to the group of the one before it if it begins before that one's end. The reference looks at that one
// only, although an earlier one may end later.
std::vector<Group> find_groups(const Checkpoint& checkpoint) {
  std::vector<Group> groups;
  const Tensor* last = nullptr;
  for (const Tensor* tensor : by_place(checkpoint)) {
    if (last == nullptr || tensor->storage != last->storage || tensor->begin >= last->end) groups.emplace_back();
    groups.back().push_back(tensor);
    last = tensor;
  }
  return groups;
}

// Whether it shows all elements of its storage. With a stride of 0, or with two that meet, it is as long and shows some
// of them again instead of others.
bool is_whole(const Tensor& tensor, const Storage& storage) {
  if (tensor.begin != 0 || tensor.bytes != storage.bytes) return false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> dimensions;  // stride and size
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] != 1) dimensions.emplace_back(tensor.strides[i], tensor.shape[i]);
  }
  std::sort(dimensions.begin(), dimensions.end());
  std::uint64_t next = 1;
  for (const auto& [stride, size] : dimensions) {
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

const Tensor& choose(const Checkpoint& checkpoint, const Group& group) {
  const Tensor* kept = nullptr;
  for (const Tensor* tensor : group) {
    if (!is_whole(*tensor, checkpoint.storages[tensor->storage])) continue;
    if (kept == nullptr || tensor->name < kept->name) kept = tensor;
  }
  if (kept != nullptr) return *kept;
  refuse_type(
      kNowhere,
      "tensors '{}' and '{}' share elements, and none is all of their storage: --keep-shared writes each of them",
      group[0]->name, group[1]->name);
}

bool same_view(const Tensor& a, const Tensor& b) {
  return std::tie(a.dtype, a.shape, a.strides, a.begin) == std::tie(b.dtype, b.shape, b.strides, b.begin);
}

}  // namespace

Dropped drop_shared(Checkpoint& checkpoint) {
  Dropped dropped;
  std::vector<bool> is_dropped(checkpoint.tensors.size());
  for (const Group& group : find_groups(checkpoint)) {
    if (group.size() == 1) continue;
    const Tensor& kept = choose(checkpoint, group);
    for (const Tensor* tensor : group) {
      if (tensor == &kept) continue;
      is_dropped[static_cast<std::size_t>(tensor - checkpoint.tensors.data())] = true;
      checkpoint.metadata.emplace(tensor->name, kept.name);
      if (!same_view(*tensor, kept) && dropped.views++ == 0) dropped.first_view = tensor->name;
    }
  }
  std::size_t at = 0;
  std::erase_if(checkpoint.tensors, [&](const Tensor&) { return is_dropped[at++]; });
  return dropped;
}

}  // namespace cli::legacy
