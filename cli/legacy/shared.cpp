// SPDX-License-Identifier: Apache-2.0
#include "shared.hpp"

#include <algorithm>
#include <tuple>
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

const Tensor& choose(const Checkpoint& checkpoint, const Group& group) {
  const Tensor* kept = nullptr;
  for (const Tensor* tensor : group) {
    const bool is_whole = tensor->begin == 0 && tensor->bytes == checkpoint.storages[tensor->storage].bytes;
    if (is_whole && (kept == nullptr || tensor->name < kept->name)) kept = tensor;
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
