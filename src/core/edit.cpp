// SPDX-License-Identifier: Apache-2.0
#include "core/edit.hpp"

#include <algorithm>
#include <map>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/shard.hpp"
#include "format/header.hpp"
#include "io/atomic_file.hpp"
#include "io/edited_file.hpp"
#include "io/os.hpp"

namespace st::core {

namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kSector = 512;
constexpr int kMostAttempts = 5;

using Pairs = std::map<std::string_view, std::string_view>;

Pairs changed(const Table& table, std::span<const MetadataChange> changes) {
  Pairs pairs;
  for (const MetadataPair& pair : table.metadata) pairs[pair.key] = pair.value;
  for (const MetadataChange& change : changes) {
    format::check_metadata(change.key, change.value.value_or(std::string_view()));
    if (change.value) {
      pairs[change.key] = *change.value;
    } else {
      pairs.erase(change.key);
    }
  }
  return pairs;
}

bool is_unchanged(const Table& table, const Pairs& pairs) {
  if (pairs.size() != table.metadata.size()) return false;
  return std::all_of(table.metadata.begin(), table.metadata.end(), [&](const MetadataPair& pair) {
    const auto found = pairs.find(pair.key);
    return found != pairs.end() && found->second == pair.value;
  });
}

// Returns the largest power of two, from 8 to 1 MiB, that divides the position of the data.
std::uint64_t alignment_of(std::uint64_t data_begin) {
  const std::uint64_t lowest_bit = data_begin & (~data_begin + 1);
  return std::clamp<std::uint64_t>(lowest_bit, 8, format::kMaxAlignment);
}

// Returns false, and does not replace the file, if it was changed or replaced during the copy.
bool write_new_file(const char* path, const Shard& shard, const std::string& header, const io::EditedFile& edited,
                    bool sync) {
  const std::uint64_t data = shard.source->size() - shard.table.data_begin;
  io::CreateOptions creating;
  creating.sync = sync;
  creating.streams = false;  // a FIFO that has replaced the file would block
  try {
    io::AtomicFile file = io::AtomicFile::create(path, creating);
    file.set_size(header.size() + data);
    file.write_at(0, header.data(), header.size());
    file.copy_at(header.size(), *shard.source, shard.table.data_begin, data);
    file.commit_over(edited);
    return true;
  } catch (const Error& error) {
    if (error.status != Status::state || error.os_error != 0) throw;  // with os_error: another process has the lock
    return false;
  }
}

// The range [begin, end) in which two unequal headers differ. Headers of different lengths count as entirely different.
struct Difference {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool within(std::uint64_t unit) const { return begin / unit == (end - 1) / unit; }
};

Difference difference(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return {0, SIZE_MAX};
  const auto begin = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
  const auto end = static_cast<std::size_t>(a.rend() - std::mismatch(a.rbegin(), a.rend(), b.rbegin()).first);
  return {begin, end};
}

std::string spliced(const Shard& shard, std::string_view old_header, const Pairs& pairs, std::uint64_t alignment,
                    std::uint64_t reserve, bool keep_length) {
  std::vector<MetadataPair> list;
  for (const auto& [key, value] : pairs) list.push_back({key, value});
  return format::splice_metadata(shard.table.format, old_header, {list, alignment, reserve, keep_length});
}

// An earlier edit may have made the change but failed to sync it. Linux then marks the pages as clean, so syncing again
// would succeed without writing them. So this writes the header again. Returns false if another process changed the
// file.
bool sync_again(io::EditedFile& file, const Shard& shard, std::string_view header) {
  using Patch = io::EditedFile::Patch;
  const Patch patch = file.patch(shard.header_begin, header.data(), header.size(), true);
  if (patch == Patch::refused) file.sync();  // no edits in place without locks
  return patch != Patch::changed;
}

void open_edited(Shard& shard, io::EditedFile& file) {
  shard.source = file.take_source();
  format::HeaderOptions reading;
  reading.seed = io::hash_seed(&reading);
  open_shard(shard, io::Mode::read, reading);
}

// Returns false, and does not change the file, if another process changed it in the meantime.
bool try_edit(const char* path, std::span<const MetadataChange> changes, const EditOptions& options) {
  io::EditedFile file = io::EditedFile::open(path);
  Shard shard(std::pmr::new_delete_resource());
  open_edited(shard, file);
  format::require_editable(shard.table.format);
  const Pairs pairs = changed(shard.table, changes);
  const std::uint64_t data_begin = shard.table.data_begin;
  const bool stays = options.data_alignment == 0 || data_begin % options.data_alignment == 0;
  const bool is_done = is_unchanged(shard.table, pairs) && stays;
  if (is_done && !options.sync) return true;

  const char* const raw = raw_header(shard);
  if (raw == nullptr) throw std::bad_alloc();
  const std::string_view old_header(raw, shard.header.size());
  if (is_done) return sync_again(file, shard, old_header);
  const std::uint64_t alignment = std::max(options.data_alignment, alignment_of(data_begin));
  const std::string bytes = spliced(shard, old_header, pairs, alignment, options.header_reserve, stays);
  std::string old_bytes = bytes.substr(0, static_cast<std::size_t>(shard.header_begin));
  old_bytes += old_header;
  const Difference change = difference(old_bytes, bytes);
  if (change.within(options.sync ? kSector : kBlock)) {
    using Patch = io::EditedFile::Patch;
    const Patch patch = file.patch(change.begin, bytes.data() + change.begin, change.end - change.begin, options.sync);
    if (patch != Patch::refused) return patch == Patch::done;
  }
  return write_new_file(path, shard, bytes, file, options.sync);
}

// Same.
bool try_write(const char* path, std::string_view name, const void* data, std::size_t size, bool sync) {
  io::EditedFile file = io::EditedFile::open(path);
  Shard shard(std::pmr::new_delete_resource());
  open_edited(shard, file);
  const Table& table = shard.table;
  if (table.format != Format::safetensors)
    fail(Status::unsupported, "only tensors of safetensors files can be replaced");
  const std::uint32_t number = table.index.find(table.tensors.data(), name);
  const std::string quoted = in_quotes(name);
  if (number == table.index.kNone) fail(Status::not_found, "no tensor {} in {}", quoted, in_quotes(path));
  const Tensor& tensor = table.tensors[number];
  if (tensor.bytes() != size) {
    fail(Status::buffer_size, "tensor {}: expected {} bytes, got {}", quoted, tensor.bytes(), size);
  }
  return file.overwrite("tensor " + quoted, shard.offset_of(tensor), data, size, sync);
}

template <class Attempt>
void repeat(const char* path, const Attempt& attempt) {
  for (int i = 0; i < kMostAttempts; ++i) {
    if (attempt()) return;
  }
  fail(Status::state, "{} was changed by another process during each of {} attempts to edit it", in_quotes(path),
       kMostAttempts);
}

}  // namespace

void edit_metadata(const char* path, std::span<const MetadataChange> changes, const EditOptions& options) {
  repeat(path, [&] { return try_edit(path, changes, options); });
}

void write_tensor(const char* path, std::string_view name, const void* data, std::size_t size, bool sync) {
  repeat(path, [&] { return try_write(path, name, data, size, sync); });
}

}  // namespace st::core
