// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <algorithm>
#include <string_view>

#include "refusal.hpp"

namespace cli::legacy {
namespace {

constexpr std::size_t kMostDimensions = 128;
constexpr std::uint64_t kMostGrowth = 200;                      // times the file
constexpr std::uint64_t kFreeGrowth = std::uint64_t{64} << 20;  // and this much in any case

// Each returns false if the result does not fit.
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

// The number of the last element in its storage.
bool find_last(const Tensor& tensor, std::uint64_t first, std::uint64_t& last) {
  last = first;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::uint64_t distance = 0;
    if (!multiply(tensor.shape[i] - 1, tensor.strides[i], distance) || !add(last, distance, last)) return false;
  }
  return true;
}

}  // namespace

void place(Tensor& tensor, std::uint64_t first, const Storage& storage, std::uint64_t at) {
  if (tensor.shape.size() > kMostDimensions || tensor.shape.size() != tensor.strides.size()) {
    refuse(at, "tensor '{}' has {} dimensions and {} strides", tensor.name, tensor.shape.size(), tensor.strides.size());
  }
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 1) tensor.strides[i] = 0;  // it leads nowhere, and may be any number
  }
  std::uint64_t elements = 0;
  if (!count_elements(tensor, elements) || !multiply(elements, tensor.element, tensor.bytes)) {
    refuse(at, "tensor '{}' has more elements than can be counted", tensor.name);
  }
  const std::uint64_t held = storage.bytes / tensor.element;
  std::uint64_t last = first;
  if (first > held || (elements > 0 && (!find_last(tensor, first, last) || last >= held))) {
    refuse(at, "tensor '{}' reaches beyond its storage '{}' of {} elements", tensor.name, storage.name, held);
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

void check_names(const Checkpoint& checkpoint) {
  std::vector<std::string_view> names;
  for (const Tensor& tensor : checkpoint.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse(kNowhere, "has two tensors called '{}'", *twice);
}

void check_growth(const Checkpoint& checkpoint) {
  std::uint64_t written = 0;
  for (const Tensor& tensor : checkpoint.tensors) written = sum(written, tensor.bytes);
  std::uint64_t unpacked = 0;
  for (const Storage& storage : checkpoint.storages) unpacked = sum(unpacked, storage.bytes);
  const std::uint64_t bytes = std::max(written, unpacked);
  const std::uint64_t size = checkpoint.input->size();
  if (bytes <= kFreeGrowth || bytes / kMostGrowth <= size) return;
  refuse(kNowhere, "has {} bytes, and {} once unpacked: more than {} times as many are not written", size, bytes,
         kMostGrowth);
}

}  // namespace cli::legacy
