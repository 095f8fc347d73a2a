// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint.hpp"

#include <new>
#include <utility>

#include "core/model_files.hpp"
#include "core/open_shards.hpp"
#include "io/os.hpp"
#include "io/source.hpp"

namespace st::core {

namespace {

const Tensor* tensor_of(const Tensor& tensor) { return &tensor; }
const Tensor* tensor_of(const TensorRef& reference) { return reference.tensor; }

}  // namespace

void Release::operator()(const Checkpoint* checkpoint) const { checkpoint->release(); }

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
  AllocatorResource memory(memory_.allocator());  // memory_ is destroyed with the checkpoint
  this->~Checkpoint();
  memory.deallocate(const_cast<Checkpoint*>(this), sizeof(Checkpoint), alignof(Checkpoint));
}

// ---- opening --------------------------------------------------------------------------------------------------------

CheckpointPtr Checkpoint::open(std::unique_ptr<io::Source> source, const OpenOptions& options) {
  CheckpointPtr checkpoint = create(options.allocator);
  Shard& shard = checkpoint->shards_.emplace_back(&checkpoint->memory_);
  shard.checkpoint = checkpoint.get();
  shard.source = std::move(source);
  format::HeaderOptions header = options.header;
  header.seed = io::hash_seed(checkpoint.get());
  open_shard(shard, options.io, header);
  return checkpoint;
}

CheckpointPtr Checkpoint::open(const ModelFiles& files, const OpenOptions& options) {
  if (files.is_one_file()) return open(files.open_file(), options);
  CheckpointPtr checkpoint = create(options.allocator);
  OpenOptions seeded = options;
  seeded.header.seed = io::hash_seed(checkpoint.get());
  ModelTable& table = checkpoint->table_.emplace(&checkpoint->memory_);
  checkpoint->warnings_ =
      open_shards(files, seeded, checkpoint->memory_, checkpoint->pool_, checkpoint->shards_, table);
  for (Shard& shard : checkpoint->shards_) shard.checkpoint = checkpoint.get();
  return checkpoint;
}

CheckpointPtr Checkpoint::open(const char* path, const OpenOptions& options) {
  if (auto file = open_file_unless_model(path)) return open(std::move(file), options);
  return open(files_of_model(path), options);
}

CheckpointPtr Checkpoint::open(std::unique_ptr<io::Directory> directory, const OpenOptions& options) {
  return open(files_of_directory(std::move(directory)), options);
}

CheckpointPtr Checkpoint::open(std::unique_ptr<io::Directory> directory, std::string name, const OpenOptions& options) {
  return open(files_by_name(std::move(directory), std::move(name)), options);
}

CheckpointPtr Checkpoint::open_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size,
                                          const OpenOptions& options) {
  return open(io::file_source_of_descriptor(descriptor, offset, size), options);
}

// ---- looking up -----------------------------------------------------------------------------------------------------

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

}  // namespace st::core
