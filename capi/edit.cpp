// Changing a file's metadata.
// SPDX-License-Identifier: Apache-2.0
#include "core/edit.hpp"

#include <vector>

#include "guard.hpp"
#include "path.hpp"
#include "write_options.hpp"

namespace st::capi {

namespace {

void edit(const char* path, const std::vector<core::MetadataChange>& changes, const st_write_options* options) {
  const st_write_options given = read_write_options(options, ST_WRITE_SYNC);
  core::edit_metadata(path, changes, {(given.flags & ST_WRITE_SYNC) != 0, given.data_alignment, given.header_reserve});
}

}  // namespace

}  // namespace st::capi

using namespace st;
using namespace st::capi;

extern "C" {

st_status st_edit_metadata(const char* path, const char* const* keys, const char* const* values, size_t n,
                           const st_write_options* options, st_error* err) {
  return guard(err, [&] {
    require(path, "path");
    if (n > 0) require(keys, "keys");
    if (n > 0) require(values, "values");
    std::vector<core::MetadataChange> changes(n);
    for (size_t i = 0; i < n; ++i) {
      require(keys[i], "a key");
      changes[i].key = keys[i];
      if (values[i] != nullptr) changes[i].value = values[i];
    }
    edit(path, changes, options);
  });
}

st_status st_edit_metadata_n(const char* path, size_t path_len, const char* const* keys, const size_t* key_lens,
                             const char* const* values, const size_t* value_lens, size_t n,
                             const st_write_options* options, st_error* err) {
  return guard(err, [&] {
    const std::string text = path_of(path, path_len);
    if (n > 0) require(keys, "keys");
    if (n > 0) require(key_lens, "key_lens");
    if (n > 0) require(values, "values");
    if (n > 0) require(value_lens, "value_lens");
    std::vector<core::MetadataChange> changes(n);
    for (size_t i = 0; i < n; ++i) {
      require(keys[i], "a key");
      changes[i].key = {keys[i], key_lens[i]};
      if (values[i] != nullptr) changes[i].value = {values[i], value_lens[i]};
    }
    edit(text.c_str(), changes, options);
  });
}

}  // extern "C"
