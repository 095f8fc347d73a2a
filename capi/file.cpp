// Opens files and returns their contents, except tensor data.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/tensor_columns.hpp"
#include "guard.hpp"
#include "handles.hpp"
#include "io/source.hpp"
#include "options.hpp"

using namespace st;
using namespace st::capi;

namespace {

using core::TensorColumns;

// Derived so that st_tensor_list_free() can cast the caller's pointer back.
struct List : st_tensor_list {
  TensorColumns columns;

  List(const core::Checkpoint& file, std::uint32_t given_flags)
      : st_tensor_list{},
        columns(file, (given_flags & ST_LIST_DATA) != 0 ? TensorColumns::Views::all : TensorColumns::Views::none) {
    struct_size = sizeof(st_tensor_list);
    flags = given_flags;
    count = columns.count;
    names = columns.names;
    name_offsets = columns.name_offsets;
    dtypes = columns.dtypes;
    ranks = columns.ranks;
    dims = columns.dims;
    dim_offsets = columns.dim_offsets;
    offsets = columns.offsets;
    sizes = columns.sizes;
    shards = columns.shards;
    data = columns.data;
    tensors = reinterpret_cast<const st_tensor* const*>(columns.tensors);
  }
};

void open_path(const char* path, const st_open_options* options, st_file** out) {
  require(path, "path");
  require(out, "out");
  *out = handle(core::Checkpoint::open(path, open_options(options)));
}

}  // namespace

extern "C" {

st_status st_open(const char* path, const st_open_options* options, st_file** out, st_error* err) {
  return guard(err, [&] { open_path(path, options, out); });
}

st_status st_open_n(const char* path, size_t len, const st_open_options* options, st_file** out, st_error* err) {
  return guard(err, [&] { open_path(path_of(path, len).c_str(), options, out); });
}

st_status st_open_memory(const void* data, size_t size, void (*release)(void* ctx), void* ctx,
                         const st_open_options* options, st_file** out, st_error* err) {
  return guard(err, [&] {
    // Comes before all checks, because its destructor calls release.
    std::unique_ptr<io::Source> source = io::memory_source(data, size, release, ctx);
    if (size != 0) require(data, "data");
    require(out, "out");
    *out = handle(core::Checkpoint::open(std::move(source), open_options(options)));
  });
}

st_status st_open_fd(intptr_t fd, uint64_t offset, uint64_t size, const st_open_options* options, st_file** out,
                     st_error* err) {
  return guard(err, [&] {
    require(out, "out");
    *out = handle(core::Checkpoint::open_descriptor(fd, offset, size, open_options(options)));
  });
}

st_file* st_retain(const st_file* file) {
  if (file != nullptr) file_of(file).retain();
  return const_cast<st_file*>(file);
}

void st_free(st_file* file) {
  if (file != nullptr) file_of(file).release();
}

size_t st_count_tensors(const st_file* file) { return file_of(file).count_tensors(); }

const st_tensor* st_get_tensor_at(const st_file* file, size_t i) { return handle(file_of(file).tensor_at(i)); }

const st_tensor* st_get_tensor(const st_file* file, const char* name) { return handle(file_of(file).tensor(name)); }

const st_tensor* st_get_tensor_n(const st_file* file, const char* name, size_t len) {
  return handle(file_of(file).tensor({name, len}));
}

st_format st_get_format(const st_file* file) { return static_cast<st_format>(file_of(file).format()); }

int32_t st_has_metadata(const st_file* file) { return file_of(file).has_metadata() ? 1 : 0; }

size_t st_count_metadata(const st_file* file) { return file_of(file).metadata().size(); }

const char* st_get_metadata_at(const st_file* file, size_t i, size_t* key_len, const char** value, size_t* value_len) {
  const auto& pairs = file_of(file).metadata();
  if (i >= pairs.size()) return nullptr;
  if (key_len != nullptr) *key_len = pairs[i].key.size();
  if (value != nullptr) *value = pairs[i].value.data();
  if (value_len != nullptr) *value_len = pairs[i].value.size();
  return pairs[i].key.data();
}

const char* st_get_metadata(const st_file* file, const char* key, size_t* value_len) {
  return st_get_metadata_n(file, key, std::strlen(key), value_len);
}

const char* st_get_metadata_n(const st_file* file, const char* key, size_t key_len, size_t* value_len) {
  const core::MetadataPair* const pair = file_of(file).metadata({key, key_len});
  if (pair == nullptr) return nullptr;
  if (value_len != nullptr) *value_len = pair->value.size();
  return pair->value.data();
}

size_t st_count_shards(const st_file* file) { return file_of(file).count_shards(); }

const char* st_get_shard_path(const st_file* file, size_t shard) { return st_get_shard_path_n(file, shard, nullptr); }

const char* st_get_shard_path_n(const st_file* file, size_t shard, size_t* len) {
  const core::Shard* const found = file_of(file).shard_at(shard);
  return found == nullptr ? nullptr : with_length(found->path, len);
}

st_status st_check_unchanged(const st_file* file, size_t shard, st_error* err) {
  return guard(err, [&] {
    require(file, "file");
    const core::Shard* const found = file_of(file).shard_at(shard);
    if (found == nullptr)
      fail(Status::range, "no shard {}: the checkpoint has {}", shard, file_of(file).count_shards());
    const std::string change = core::change_of(*found);
    if (!change.empty()) fail(Status::read, "{}", change);
  });
}

const char* st_get_header(const st_file* file, size_t shard, size_t* len) {
  const core::Shard* const found = file_of(file).shard_at(shard);
  const char* const header = found == nullptr ? nullptr : raw_header(*found);
  if (header != nullptr && len != nullptr) *len = found->header.size();
  return header;
}

size_t st_count_warnings(const st_file* file) { return file_of(file).warnings().size(); }

const char* st_get_warning(const st_file* file, size_t i) { return st_get_warning_n(file, i, nullptr); }

const char* st_get_warning_n(const st_file* file, size_t i, size_t* len) {
  const auto warnings = file_of(file).warnings();
  return i < warnings.size() ? with_length(warnings[i].c_str(), len) : nullptr;
}

uint64_t st_get_shard_size(const st_file* file, size_t shard) {
  const core::Shard* const found = file_of(file).shard_at(shard);
  return found == nullptr ? 0 : found->source->size();
}

st_status st_read_shard(const st_file* file, size_t shard, uint64_t offset, void* dst, size_t n, st_error* err) {
  return guard(err, [&] {
    require(file, "file");
    const core::Shard* const found = file_of(file).shard_at(shard);
    if (found == nullptr) fail(Status::range, "shard {} of {}", shard, file_of(file).count_shards());
    read_range(*found, offset, dst, n);
  });
}

st_status st_list_tensors(const st_file* file, uint32_t flags, st_tensor_list** out, st_error* err) {
  return guard(err, [&] {
    require(file, "file");
    require(out, "out");
    refuse_unknown_flags(flags, ST_LIST_DATA, "st_list_tensors");
    *out = new List(file_of(file), flags);
  });
}

void st_tensor_list_free(st_tensor_list* list) { delete static_cast<List*>(list); }

}  // extern "C"
