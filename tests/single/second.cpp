// Compiled with ST_PREFIX=other_ and ST_MINIMAL, as the second copy that it uses.
// SPDX-License-Identifier: Apache-2.0
#include "safetensors.hpp"

extern "C" st_status other_open(const char* path, const st_open_options* options, st_file** out, st_error* err);

bool reads_with_the_other_copy(const char* path);

bool reads_with_the_other_copy(const char* path) {
  st_file* file = nullptr;
  if (other_open(path, nullptr, &file, nullptr) != ST_OK) return false;
  const bool one = st_count_tensors(file) == 1;  // other_count_tensors
  st_free(file);
  return one;
}
