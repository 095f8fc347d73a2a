// Opens a file: checks the header's length, copies the header, and parses it into the table. The header is not read
// again after that, so no offset can change after it was checked.
// SPDX-License-Identifier: Apache-2.0
#include "core/shard.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "io/source.hpp"

namespace st::core {

namespace {

constexpr std::size_t kFirstBytes = std::size_t{16} << 10;  // size of the first read: enough for most headers
constexpr int kMostRereads = 100;
constexpr std::chrono::milliseconds kBetweenReadings(1);  // lets an interrupted writer continue

// Counts each header only once, even if it is reread.
void add_to(HeaderSum* sum, std::uint64_t bytes, const Shard& shard) {
  if (sum == nullptr || shard.header.data() != nullptr) return;
  sum->bytes += bytes;
  if (sum->exceeded()) fail(Status::header_size, "the headers of the model exceed {} bytes", sum->limit);
}

void read_text(Shard& shard, const format::HeaderOptions& options, HeaderSum* sum) {
  const std::uint64_t size = shard.source->size();
  std::array<char, kFirstBytes> first;
  const auto have = static_cast<std::size_t>(std::min<std::uint64_t>(size, first.size()));
  shard.source->read_at(0, first.data(), have);
  const format::HeaderExtent extent = format::find_header({first.data(), have}, size, options);
  const auto length = static_cast<std::size_t>(extent.bytes);
  add_to(sum, extent.bytes, shard);
  if (shard.header.data() == nullptr || shard.header.size() != length)
    shard.header = core::PaddedBuffer(length, shard.memory);
  shard.header_begin = extent.begin;
  const auto begin = static_cast<std::size_t>(std::min<std::uint64_t>(extent.begin, have));
  const std::size_t known = std::min(length, have - begin);
  std::memcpy(shard.header.data(), first.data() + begin, known);
  if (known < length) {
    shard.source->read_at(extent.begin + known, shard.header.data() + known, length - known);
  }
}

// Reads while holding a lock against edits. Without locks, reads until two results are equal.
void read_text_again(Shard& shard, const format::HeaderOptions& options, HeaderSum* sum) {
  const std::shared_ptr<const void> lock = shard.source->lock_out_edits();
  read_text(shard, options, sum);
  for (int i = 0; lock == nullptr; ++i) {
    if (i == kMostRereads) fail(Status::read, "the header keeps changing while it is read");
    const std::string before(shard.header.data(), shard.header.size());
    std::this_thread::sleep_for(kBetweenReadings);
    read_text(shard, options, sum);
    if (before == std::string_view(shard.header.data(), shard.header.size())) return;
  }
}

void name_source(Error& error, const Shard& shard) {
  if (*shard.source->name() == '\0') return;
  const std::string name = in_quotes(shard.source->name());
  if (error.message.find(name) == std::string::npos) error.message = name + ": " + error.message;
}

// If mapping fails, checks for duplicate names first, because all header errors come before mapping errors.
void prepare_checked(Shard& shard, io::Mode mode, const format::HeaderOptions& options) try {
  shard.source->prepare(mode, shard.number < io::kMostKeptOpen);
} catch (const Error&) {
  if (!options.index_names) index_names(shard, options);
  throw;
}

}  // namespace

Shard::~Shard() {
  if (char* const raw = raw_header.load()) memory->deallocate(raw, header.size() + 1, 1);
}

std::string change_of(const Shard& shard) {
  const io::Overwritten overwritten = shard.source->overwritten();
  if (overwritten == io::Overwritten::no) return {};
  const std::string name = *shard.path == '\0' ? "the file" : in_quotes(shard.path);
  if (overwritten == io::Overwritten::yes) return name + " was overwritten in place after it was opened";
  return name + " may have been overwritten: its path no longer leads to it, and its descriptor was not kept";
}

// If the file changed recently, the header may have been read during an edit, and may be half new. It is then reread.
void read_header_text(Shard& shard, const format::HeaderOptions& options, HeaderSum* sum) {
  bool whole = false;
  try {
    read_text(shard, options, sum);
    whole = !shard.source->changed_lately();
  } catch (const Error&) {
    const bool too_long = sum != nullptr && sum->exceeded();
    if (too_long || !shard.source->changed_lately()) throw;
  }
  if (!whole) read_text_again(shard, options, sum);
}

void open_shard(Shard& shard, io::Mode mode, format::HeaderOptions options, HeaderSum* sum) try {
  shard.path = shard.source->name();
  const std::uint64_t size = shard.source->size();
  read_header_text(shard, options, sum);

  options.owner = &shard;
  format::read_header(shard.header.bytes(), size, options, shard.table);
  prepare_checked(shard, mode, options);
} catch (Error& error) {
  name_source(error, shard);
  throw;
}

void index_names(Shard& shard, format::HeaderOptions options) try {
  options.owner = &shard;
  options.index_names = true;
  format::read_header_again(shard.header.bytes(), shard.source->size(), options, shard.table);
} catch (Error& error) {
  name_source(error, shard);
  throw;
}

const char* raw_header(const Shard& shard) {
  if (const char* const made = shard.raw_header.load(std::memory_order_acquire)) return made;
  char* copy = nullptr;
  try {
    copy = static_cast<char*>(shard.memory->allocate(shard.header.size() + 1, 1));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  format::restore_header(shard.header.bytes(), shard.table, copy);
  copy[shard.header.size()] = '\0';
  char* earlier = nullptr;
  if (shard.raw_header.compare_exchange_strong(earlier, copy, std::memory_order_acq_rel)) return copy;
  shard.memory->deallocate(copy, shard.header.size() + 1, 1);  // another thread was first
  return earlier;
}

void read_range(const Shard& shard, std::uint64_t offset, void* dst, std::size_t n) {
  const std::uint64_t size = shard.source->size();
  if (offset > size || n > size - offset) {
    fail(Status::range, "{} bytes at offset {} exceed the file of {} bytes", n, offset, size);
  }
  if (n == 0) return;
  if (dst == nullptr) fail(Status::argument, "dst is NULL");
  shard.source->read_at(offset, dst, n);
}

void check_destination(const Tensor& tensor, std::uint64_t bytes, const void* dst, std::uint64_t dst_bytes) {
  if (dst_bytes != bytes) {
    fail(Status::buffer_size, "tensor {}: expected a destination of {} bytes, got {}", in_quotes(tensor.name()), bytes,
         dst_bytes);
  }
  if (dst == nullptr && bytes != 0) fail(Status::argument, "tensor {}: dst is NULL", in_quotes(tensor.name()));
}

void read(const Tensor& tensor, void* dst, std::uint64_t dst_bytes) {
  check_destination(tensor, tensor.bytes(), dst, dst_bytes);
  if (dst_bytes != 0) read(tensor, dst);
}

const std::byte* view(const Tensor& tensor) {
  const std::byte* const file = shard_of(tensor).source->view();
  return file == nullptr ? nullptr : file + shard_of(tensor).offset_of(tensor);
}

void advise(const Tensor& tensor, io::Advice advice) {
  shard_of(tensor).source->advise(shard_of(tensor).offset_of(tensor), tensor.bytes(), advice);
}

void read(const Tensor& tensor, void* dst) {
  shard_of(tensor).source->read_at(shard_of(tensor).offset_of(tensor), dst, static_cast<std::size_t>(tensor.bytes()));
}

}  // namespace st::core
