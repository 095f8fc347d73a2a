// SPDX-License-Identifier: Apache-2.0
#include "core/file.hpp"

#include <new>

namespace st::core {

void Release::operator()(const File* file) const { file->release(); }

FilePtr File::create(const Allocator& allocator) {
  Memory memory(allocator);
  void* const place = memory.allocate(sizeof(File), alignof(File));
  try {
    return FilePtr(new (place) File(allocator));
  } catch (...) {
    memory.deallocate(place, sizeof(File), alignof(File));
    throw;
  }
}

void File::release() const {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Memory memory(memory_.allocator());  // outlives the File that holds the other one
  this->~File();
  memory.deallocate(const_cast<File*>(this), sizeof(File), alignof(File));
}

const Tensor* File::tensor_at(std::size_t i) const {
  if (i >= count_tensors()) return nullptr;
  return catalog_ ? catalog_->tensors[i].tensor : &first().tensors[i];
}

const Tensor* File::tensor(std::string_view name) const {
  if (catalog_) {
    const std::uint32_t number = catalog_->index.find(catalog_->tensors.data(), name);
    return number == catalog_->index.kNone ? nullptr : catalog_->tensors[number].tensor;
  }
  const std::uint32_t number = first().index.find(first().tensors.data(), name);
  return number == first().index.kNone ? nullptr : &first().tensors[number];
}

const MetadataPair* File::metadata(std::string_view key) const {
  if (catalog_) {
    const std::uint32_t number = catalog_->metadata_index.find(catalog_->metadata.data(), key);
    return number == catalog_->metadata_index.kNone ? nullptr : &catalog_->metadata[number];
  }
  const std::uint32_t number = first().metadata_index.find(first().metadata.data(), key);
  return number == first().metadata_index.kNone ? nullptr : &first().metadata[number];
}

std::span<const std::string> File::warnings() const {
  return catalog_ ? std::span<const std::string>(catalog_->warnings) : std::span<const std::string>();
}

}  // namespace st::core
