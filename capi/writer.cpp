// Writes files.
// SPDX-License-Identifier: Apache-2.0
#include "core/writer.hpp"

#include <algorithm>
#include <memory>
#include <string_view>

#include "guard.hpp"
#include "handles.hpp"
#include "options.hpp"

using namespace st;
using namespace st::capi;

namespace {

core::WriteOptions core_options(const st_write_options* options) {
  constexpr std::uint32_t kFlags =
      ST_WRITE_SYNC | ST_WRITE_KEEP_ORDER | ST_WRITE_NO_REPLACE | ST_WRITE_REPLACE_LINK | ST_WRITE_ONLY_UNCHANGED;
  const st_write_options given = write_options(options, kFlags);
  core::WriteOptions core;
  core.create.sync = (given.flags & ST_WRITE_SYNC) != 0;
  core.create.replace = (given.flags & ST_WRITE_NO_REPLACE) == 0;
  core.create.replace_link = (given.flags & ST_WRITE_REPLACE_LINK) != 0;
  core.create.only_unchanged = (given.flags & ST_WRITE_ONLY_UNCHANGED) != 0;
  core.keep_order = (given.flags & ST_WRITE_KEEP_ORDER) != 0;
  if (given.format != 0) core.format = static_cast<format::Format>(given.format);
  core.data_alignment = given.data_alignment;
  core.header_reserve = given.header_reserve;
  core.callback = {given.ctx, given.progress};
  return core;
}

void add(st_writer* writer, std::string_view name, st_dtype dtype, size_t rank, const uint64_t* shape, const void* data,
         size_t* index) {
  require(writer, "writer");
  if (rank > 0) require(shape, "shape");
  const std::size_t number = writer_of(writer).add(name, dtype_from_number(dtype), {shape, rank}, data);
  if (index != nullptr) *index = number;
}

void begin(st_writer* writer, const char* path, const st_write_options* options) {
  require(writer, "writer");
  require(path, "path");
  writer_of(writer).begin(path, core_options(options));
}

}  // namespace

extern "C" {

st_status st_writer_new(st_writer** out, st_error* err) {
  return guard(err, [&] {
    require(out, "out");
    *out = handle(std::make_unique<core::Writer>().release());
  });
}

st_status st_writer_set_metadata(st_writer* writer, const char* key, const char* value, st_error* err) {
  return guard(err, [&] {
    require(writer, "writer");
    if (key == nullptr) return writer_of(writer).keep_empty_metadata();
    require(value, "value");
    writer_of(writer).set_metadata(key, value);
  });
}

st_status st_writer_set_metadata_n(st_writer* writer, const char* key, size_t key_len, const char* value,
                                   size_t value_len, st_error* err) {
  return guard(err, [&] {
    require(writer, "writer");
    if (key == nullptr && key_len == 0) return writer_of(writer).keep_empty_metadata();
    writer_of(writer).set_metadata(text_of(key, key_len, "key"), text_of(value, value_len, "value"));
  });
}

st_status st_writer_copy_metadata(st_writer* writer, const st_file* file, st_error* err) {
  return guard(err, [&] {
    require(writer, "writer");
    require(file, "file");
    const core::Checkpoint& source = file_of(file);
    if (source.has_metadata()) writer_of(writer).copy_metadata(source.metadata());
  });
}

st_status st_writer_add(st_writer* writer, const char* name, st_dtype dtype, size_t rank, const uint64_t* shape,
                        const void* data, size_t* index, st_error* err) {
  return guard(err, [&] { add(writer, text_of(name, "name"), dtype, rank, shape, data, index); });
}

st_status st_writer_add_n(st_writer* writer, const char* name, size_t len, st_dtype dtype, size_t rank,
                          const uint64_t* shape, const void* data, size_t* index, st_error* err) {
  return guard(err, [&] { add(writer, text_of(name, len, "name"), dtype, rank, shape, data, index); });
}

st_status st_writer_add_tensor(st_writer* writer, const char* name, size_t len, const st_tensor* tensor,
                               st_error* err) {
  return guard(err, [&] {
    require(writer, "writer");
    require(tensor, "tensor");
    const core::Tensor& source = tensor_of(tensor);
    writer_of(writer).add(name == nullptr ? source.name() : std::string_view(name, len), source);
  });
}

st_status st_writer_begin(st_writer* writer, const char* path, const st_write_options* options, st_error* err) {
  return guard(err, [&] { begin(writer, path, options); });
}

st_status st_writer_begin_n(st_writer* writer, const char* path, size_t len, const st_write_options* options,
                            st_error* err) {
  return guard(err, [&] { begin(writer, path_of(path, len).c_str(), options); });
}

st_status st_writer_put(const st_writer* writer, size_t index, uint64_t at, const void* data, size_t n, st_error* err) {
  return guard(err, [&] {
    require(writer, "writer");
    if (n > 0) require(data, "data");
    writer_of(writer).put(index, at, data, n);
  });
}

st_status st_writer_finish(st_writer* writer, st_error* err) {
  return guard(err, [&] {
    require(writer, "writer");
    writer_of(writer).finish();
  });
}

void st_writer_free(st_writer* writer) { delete reinterpret_cast<core::Writer*>(writer); }

}  // extern "C"
