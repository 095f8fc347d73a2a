// Changing a file's metadata.
// SPDX-License-Identifier: Apache-2.0
#include "core/edit.hpp"

#include <vector>

#include "guard.hpp"
#include "write_options.hpp"

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
    const st_write_options given = read_write_options(options, ST_WRITE_SYNC);
    core::edit_metadata(path, changes, {(given.flags & ST_WRITE_SYNC) != 0, given.data_alignment, given.header_reserve});
  });
}

}  // extern "C"
