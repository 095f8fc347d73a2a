// Edits files: their metadata, and the bytes of a tensor.
// SPDX-License-Identifier: Apache-2.0
#include "core/edit.hpp"

#include <vector>

#include "guard.hpp"
#include "options.hpp"

using namespace st;
using namespace st::capi;

namespace {

// If the lengths are nullptr, keys and values are NUL-terminated.
void edit(const char* path, const char* const* keys, const size_t* key_lens, const char* const* values,
          const size_t* value_lens, size_t n, const st_write_options* options) {
  require(path, "path");
  if (n > 0) require(keys, "keys");
  if (n > 0) require(values, "values");
  std::vector<core::MetadataChange> changes(n);
  for (size_t i = 0; i < n; ++i) {
    require(keys[i], "a key");
    changes[i].key = key_lens == nullptr ? keys[i] : std::string_view(keys[i], key_lens[i]);
    if (values[i] == nullptr) continue;
    changes[i].value = value_lens == nullptr ? values[i] : std::string_view(values[i], value_lens[i]);
  }
  const st_write_options given = write_options(options, ST_WRITE_SYNC);
  core::edit_metadata(path, changes, {(given.flags & ST_WRITE_SYNC) != 0, given.data_alignment, given.header_reserve});
}

void write(const char* path, std::string_view name, const void* data, size_t size, const st_write_options* options) {
  require(path, "path");
  if (size > 0) require(data, "data");
  const st_write_options given = write_options(options, ST_WRITE_SYNC);
  core::write_tensor(path, name, data, size, (given.flags & ST_WRITE_SYNC) != 0);
}

}  // namespace

extern "C" {

st_status st_edit_metadata(const char* path, const char* const* keys, const char* const* values, size_t n,
                           const st_write_options* options, st_error* err) {
  return guard(err, [&] { edit(path, keys, nullptr, values, nullptr, n, options); });
}

st_status st_edit_metadata_n(const char* path, size_t path_len, const char* const* keys, const size_t* key_lens,
                             const char* const* values, const size_t* value_lens, size_t n,
                             const st_write_options* options, st_error* err) {
  return guard(err, [&] {
    if (n > 0) require(key_lens, "key_lens");
    if (n > 0) require(value_lens, "value_lens");
    edit(path_of(path, path_len).c_str(), keys, key_lens, values, value_lens, n, options);
  });
}

st_status st_tensor_write(const char* path, const char* name, const void* data, size_t size,
                          const st_write_options* options, st_error* err) {
  return guard(err, [&] { write(path, text_of(name, "name"), data, size, options); });
}

st_status st_tensor_write_n(const char* path, size_t path_len, const char* name, size_t name_len, const void* data,
                            size_t size, const st_write_options* options, st_error* err) {
  return guard(err,
               [&] { write(path_of(path, path_len).c_str(), text_of(name, name_len, "name"), data, size, options); });
}

}  // extern "C"
