// Declares and lays out tensors. writer_bytes.cpp writes their bytes.
// SPDX-License-Identifier: Apache-2.0
#include "core/writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/checked.hpp"
#include "base/compiler.hpp"
#include "base/text.hpp"
#include "io/os.hpp"

namespace st::core {

namespace {

constexpr std::size_t kAhead = 8;  // tensors are prefetched this far ahead

}  // namespace

Writer::Writer() : index_(std::pmr::new_delete_resource()), seed_(io::hash_seed(this)) {}

void Writer::require_state(State wanted, const char* call) const {
  const State state = state_.load(std::memory_order_acquire);
  if (state == wanted) return;
  switch (state) {
    case State::declaring: fail(Status::state, "{} was called before begin", call);
    case State::begun: fail(Status::state, "{} was called after begin", call);
    case State::finished: fail(Status::state, "{} was called after finish", call);
    case State::failed: {
      const std::lock_guard lock(failure_mutex_);
      throw Error(*failure_);
    }
  }
}

std::string_view Writer::keep(std::string_view text) { return copy_text(arena_, text); }

std::span<const std::uint64_t> Writer::keep(std::span<const std::uint64_t> shape) {
  if (shape.empty()) return {};
  auto* const copy = static_cast<std::uint64_t*>(arena_.allocate(shape.size_bytes(), alignof(std::uint64_t)));
  std::memcpy(copy, shape.data(), shape.size_bytes());
  return {copy, shape.size()};
}

// ---- declaring ---------------------------------------------------------------------------------------------------

void Writer::set_metadata(std::string_view key, std::string_view value) {
  require_state(State::declaring, "set_metadata");
  format::check_metadata(key, value);
  if (const auto known = metadata_.find(key); known != metadata_.end()) {
    known->second = keep(value);
  } else {
    metadata_.emplace(keep(key), keep(value));
  }
  has_metadata_ = true;
}

void Writer::copy_metadata(std::span<const MetadataPair> pairs) {
  require_state(State::declaring, "copy_metadata");
  for (const MetadataPair& pair : pairs) format::check_metadata(pair.key, pair.value);
  auto all = metadata_;
  for (const MetadataPair& pair : pairs) all.insert_or_assign(keep(pair.key), keep(pair.value));
  metadata_.swap(all);
  has_metadata_ = true;
}

void Writer::keep_empty_metadata() {
  require_state(State::declaring, "set_metadata");
  has_metadata_ = true;
}

std::size_t Writer::add(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape, const void* data) {
  const std::size_t number = declare(name, dtype, shape);
  tensors_[number].data = data;
  tensors_[number].given = data != nullptr;
  return number;
}

std::size_t Writer::add(std::string_view name, const Tensor& tensor) {
  const std::size_t number = declare(name, tensor.dtype(), tensor.shape());
  tensors_[number].source = &tensor;
  tensors_[number].given = true;
  return number;
}

// Everything that can fail comes first so that a failed call adds nothing.
std::size_t Writer::declare(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape) {
  require_state(State::declaring, "add");
  const std::uint64_t bytes = format::check_tensor(name, dtype, shape);
  if (tensors_.size() == UINT32_MAX - 1)
    fail(Status::overflow, "a file cannot have more than {} tensors", tensors_.size());
  make_room();
  Declared tensor;
  tensor.text = keep(name);
  tensor.shape = keep(shape);
  tensor.bytes = bytes;
  tensor.dtype = dtype;
  const std::size_t number = tensors_.size();
  tensors_.push_back(tensor);  // cannot fail after make_room()
  if (index_.insert(tensors_.data(), static_cast<std::uint32_t>(number)) == index_.kNone) return number;
  tensors_.pop_back();
  fail(Status::duplicate, "tensor {} occurs twice", in_quotes(name));
}

// Grows the capacity by a factor of four when the table is full.
void Writer::make_room() {
  if (tensors_.size() < index_room_) return;
  const std::size_t room = std::max<std::size_t>(64, 4 * index_room_);
  tensors_.reserve(room);
  index_.reset(room, seed_);
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) index_.insert(tensors_.data(), i);
  index_room_ = room;
}

// ---- laying out --------------------------------------------------------------------------------------------------

std::vector<std::uint32_t> Writer::data_order(const WriteOptions& options) const {
  std::vector<std::uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), 0U);
  if (options.keep_order) return order;
  // Counting sort by rank of the dtype; then the tensors of each rank are sorted by name.
  const auto rank = [&](const Declared& tensor) { return format::dtype_order(options.format, tensor.dtype); };
  std::array<std::size_t, 257> places{};  // place of the next tensor of each rank; ranks are at most 255
  for (const Declared& tensor : tensors_) ++places[rank(tensor) + 1];
  std::partial_sum(places.begin(), places.end(), places.begin());
  for (std::uint32_t number = 0; number < tensors_.size(); ++number) order[places[rank(tensors_[number])]++] = number;
  for (std::size_t from = 0; from < order.size();) {
    const std::size_t to = places[rank(tensors_[order[from]])];
    const auto sorted = std::span(order).subspan(from, to - from);
    std::sort(sorted.begin(), sorted.end(), [&](auto a, auto b) { return tensors_[a].text < tensors_[b].text; });
    from = to;
  }
  return order;
}

// Sets Declared::begin of every tensor. Returns the length prefix and the header in one string.
std::string Writer::lay_out(const WriteOptions& options) {
  std::vector<format::NewTensor> list;
  list.reserve(order_.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (i + kAhead < order_.size()) prefetch(&tensors_[order_[i + kAhead]]);
    const Declared& tensor = tensors_[order_[i]];
    const std::uint64_t begin = end;
    if (!checked_add(begin, tensor.bytes, end) || end > INT64_MAX - 2 * format::kMaxHeaderBytes) {
      fail(Status::overflow, "tensor {}: {} bytes at offset {} exceed the maximum file size", in_quotes(tensor.text),
           tensor.bytes, begin);
    }
    format::check_tensor_of(options.format,
                            list.emplace_back(format::NewTensor{tensor.text, tensor.shape, begin, end, tensor.dtype}));
  }
  std::vector<MetadataPair> metadata;
  metadata.reserve(metadata_.size());
  for (const auto& [key, value] : metadata_) metadata.push_back({key, value});
  format::NewHeader header;
  header.tensors = list;
  header.metadata = metadata;
  header.has_metadata = has_metadata_;
  header.format = options.format;
  header.data_alignment = std::max<std::uint64_t>(8, options.data_alignment);
  header.reserve = options.header_reserve;
  std::string bytes = format::serialize(header);
  for (std::size_t i = 0; i < order_.size(); ++i) tensors_[order_[i]].begin = bytes.size() + list[i].begin;
  file_size_ = bytes.size() + end;
  return bytes;
}

}  // namespace st::core
