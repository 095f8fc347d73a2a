// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "error.hpp"

namespace cli::importer {
namespace {

constexpr std::size_t kMostDimensions = 128;
constexpr std::uint64_t kMostGrowth = 200;                      // times the size of the file
constexpr std::uint64_t kFreeGrowth = std::uint64_t{64} << 20;  // always allowed

// Memory per tensor until it is written, excluding name and shape: mostly the state of its hash.
constexpr std::uint64_t kTensorBytes = 1500;
constexpr std::uint64_t kCopies = 6;  // of name and shape
constexpr std::size_t kMostClasses = 3;
constexpr std::size_t kLongestClass = 100;
constexpr std::size_t kLongestShown = 1000;

// These two return false on overflow.
bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}
bool add(std::uint64_t a, std::uint64_t b, std::uint64_t& sum) { return !__builtin_add_overflow(a, b, &sum); }

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  return add(a, b, result) ? result : UINT64_MAX;
}

bool count_elements(const Tensor& tensor, std::uint64_t& elements) {
  elements = 1;
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0U) != tensor.shape.end()) {
    elements = 0;
    return true;
  }
  return std::all_of(tensor.shape.begin(), tensor.shape.end(),
                     [&](std::uint64_t size) { return multiply(elements, size, elements); });
}

// Finds the index of the last element in the storage. Returns false on overflow.
bool find_last(const Tensor& tensor, std::uint64_t first, std::uint64_t& last) {
  last = first;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::uint64_t distance = 0;
    if (!multiply(tensor.shape[i] - 1, tensor.strides[i], distance) || !add(last, distance, last)) return false;
  }
  return true;
}

// ---- tensors that share a storage ---------------------------------------------------------------------------------------

using Group = std::vector<const Tensor*>;

// Returns the non-empty tensors, sorted by storage and offset.
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

// Groups overlapping tensors. Like the reference, compares each tensor only with the previous one, although an earlier
// one may extend further.
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

// Returns whether a tensor covers its whole storage. Comparing sizes is not enough: with a stride of 0 or colliding
// strides, some elements are repeated and others are missing.
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
  const auto rank = [&](const Tensor& tensor) {
    return std::tuple<bool, const std::string&>(checkpoint.metadata.count(tensor.name) == 0, tensor.name);
  };
  for (const Tensor* tensor : group) {
    if (!is_whole(*tensor, checkpoint.storages[tensor->storage])) continue;
    if (kept == nullptr || rank(*tensor) < rank(*kept)) kept = tensor;
  }
  if (kept != nullptr) return *kept;
  fail_unsupported(
      kNoOffset,
      "tensors '{}' and '{}' share elements, and no tensor covers their storage: --keep-shared writes each of them",
      group[0]->name, group[1]->name);
}

bool same_view(const Tensor& a, const Tensor& b) {
  return std::tie(a.dtype, a.shape, a.strides, a.begin) == std::tie(b.dtype, b.shape, b.strides, b.begin);
}

}  // namespace

void add_tensor(Checkpoint& checkpoint, Tensor tensor, std::uint64_t at) {
  if (checkpoint.tensors.size() == kMostTensors) fail(at, "more than {} tensors", kMostTensors);
  const std::uint64_t numbers = tensor.shape.size() + tensor.strides.size();
  checkpoint.budget.charge(kTensorBytes + kCopies * (tensor.name.size() + 8 * numbers), at);
  checkpoint.tensors.push_back(std::move(tensor));
}

void leave_out(Checkpoint& checkpoint, const std::string& name, std::string_view kind) {
  if (checkpoint.left_out++ == 0) checkpoint.first_left_out = name.substr(0, kLongestShown);
  std::vector<std::string>& classes = checkpoint.left_out_classes;
  const std::string_view name_of_class = kind.substr(0, kLongestClass);
  if (kind.empty() || classes.size() == kMostClasses) return;
  if (std::find(classes.begin(), classes.end(), name_of_class) == classes.end()) classes.emplace_back(name_of_class);
}

std::string words_of_left_out(const Checkpoint& checkpoint) {
  std::string classes;
  for (const std::string& name : checkpoint.left_out_classes) classes += (classes.empty() ? "" : ", ") + name;
  return formatted("values that are not tensors: {} (first: '{}'){}{}", checkpoint.left_out, checkpoint.first_left_out,
                   classes.empty() ? "" : ", among them ", classes);
}

void place(Tensor& tensor, std::uint64_t first, const Storage& storage, std::uint64_t at) {
  if (tensor.shape.size() > kMostDimensions || tensor.shape.size() != tensor.strides.size()) {
    fail(at, "tensor '{}' has {} dimensions and {} strides", tensor.name, tensor.shape.size(), tensor.strides.size());
  }
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 1) tensor.strides[i] = 0;  // the stride of a dimension of size 1 has no effect
  }
  std::uint64_t elements = 0;
  if (!count_elements(tensor, elements) || !multiply(elements, tensor.element, tensor.bytes)) {
    fail(at, "tensor '{}': number of elements overflows", tensor.name);
  }
  const std::uint64_t held = storage.bytes / tensor.element;
  std::uint64_t last = first;
  if (first > held || (elements > 0 && (!find_last(tensor, first, last) || last >= held))) {
    fail(at, "tensor '{}' exceeds its storage '{}' of {} elements", tensor.name, storage.name, held);
  }
  tensor.begin = first * tensor.element;
  tensor.end = elements == 0 ? tensor.begin : (last + 1) * tensor.element;
}

bool is_contiguous(const Tensor& tensor) {
  if (tensor.bytes == 0) return true;
  const std::vector<std::uint64_t> usual = row_major(tensor.shape);
  for (std::size_t i = 0; i < usual.size(); ++i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != usual[i]) return false;
  }
  return true;
}

std::vector<std::uint64_t> row_major(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void check_names(const Checkpoint& checkpoint, ExitCode code) {
  std::vector<std::string_view> names;
  for (const Tensor& tensor : checkpoint.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw ImportError{code, formatted("two tensors are named '{}'", *twice)};
}

void check_growth(const Checkpoint& checkpoint) {
  std::uint64_t written = 0;
  for (const Tensor& tensor : checkpoint.tensors) written = sum(written, tensor.bytes);
  std::uint64_t unpacked = 0;
  for (const Storage& storage : checkpoint.storages) unpacked = sum(unpacked, storage.bytes);
  check_growth(*checkpoint.input, std::max(written, unpacked));
}

void check_growth(const Input& input, std::uint64_t bytes) {
  const std::uint64_t size = input.size();
  if (bytes <= kFreeGrowth || bytes / kMostGrowth <= size) return;
  fail(kNoOffset, "{} bytes would become {} (limit: {} times the file)", size, bytes, kMostGrowth);
}

Dropped drop_shared(Checkpoint& checkpoint) {
  Dropped dropped;
  std::vector<bool> is_dropped(checkpoint.tensors.size());
  for (const Group& group : find_groups(checkpoint)) {
    if (group.size() == 1) continue;
    const Tensor& kept = choose(checkpoint, group);
    for (const Tensor* tensor : group) {
      if (tensor == &kept) continue;
      is_dropped[static_cast<std::size_t>(tensor - checkpoint.tensors.data())] = true;
      checkpoint.budget.charge(kCopies * (tensor->name.size() + kept.name.size()), kNoOffset);
      const bool is_recorded = checkpoint.metadata.emplace(tensor->name, kept.name).second;  // false for "format"
      dropped.names.insert(tensor->name);
      if ((!is_recorded || !same_view(*tensor, kept)) && dropped.views++ == 0) dropped.first_view = tensor->name;
    }
  }
  std::size_t at = 0;
  std::erase_if(checkpoint.tensors, [&](const Tensor&) { return is_dropped[at++]; });
  return dropped;
}

}  // namespace cli::importer
