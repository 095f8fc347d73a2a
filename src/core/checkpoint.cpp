// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint.hpp"

#include <new>

namespace st::core {

namespace {

const Tensor* tensor_of(const Tensor& tensor) { return &tensor; }
const Tensor* tensor_of(const TensorRef& reference) { return reference.tensor; }

}  // namespace

void Release::operator()(const Checkpoint* file) const { file->release(); }

CheckpointPtr Checkpoint::create(const Allocator& allocator) {
  AllocatorResource memory(allocator);
  void* const place = memory.allocate(sizeof(Checkpoint), alignof(Checkpoint));
  try {
    return CheckpointPtr(new (place) Checkpoint(allocator));
  } catch (...) {
    memory.deallocate(place, sizeof(Checkpoint), alignof(Checkpoint));
    throw;
  }
}

void Checkpoint::release() const {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  AllocatorResource memory(memory_.allocator());  // outlives the Checkpoint that holds the other one
  this->~Checkpoint();
  memory.deallocate(const_cast<Checkpoint*>(this), sizeof(Checkpoint), alignof(Checkpoint));
}

std::size_t Checkpoint::count_tensors() const {
  return with_lists([](const auto& lists) { return lists.tensors.size(); });
}

const Tensor* Checkpoint::tensor_at(std::size_t i) const {
  return with_lists(
      [i](const auto& lists) { return i < lists.tensors.size() ? tensor_of(lists.tensors[i]) : nullptr; });
}

const Tensor* Checkpoint::tensor(std::string_view name) const {
  return with_lists([name](const auto& lists) -> const Tensor* {
    const std::uint32_t number = lists.index.find(lists.tensors.data(), name);
    return number == lists.index.kNone ? nullptr : tensor_of(lists.tensors[number]);
  });
}

const std::pmr::vector<MetadataPair>& Checkpoint::metadata() const {
  return with_lists([](const auto& lists) -> const auto& { return lists.metadata; });
}

bool Checkpoint::has_metadata() const {
  return with_lists([](const auto& lists) { return lists.has_metadata; });
}

const MetadataPair* Checkpoint::metadata(std::string_view key) const {
  return with_lists([key](const auto& lists) {
    const std::uint32_t number = lists.metadata_index.find(lists.metadata.data(), key);
    return number == lists.metadata_index.kNone ? nullptr : &lists.metadata[number];
  });
}

std::span<const std::string> Checkpoint::warnings() const {
  return catalog_ ? std::span<const std::string>(catalog_->warnings) : std::span<const std::string>();
}

}  // namespace st::core
