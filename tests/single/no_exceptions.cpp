// Compiled with -fno-exceptions, as a project whose only file with exceptions is its copy of the library.
// SPDX-License-Identifier: Apache-2.0
#include "safetensors.h"

#if defined(__cpp_exceptions)
#error "this file is compiled with exceptions"
#endif

const char* status_without_exceptions(const char* path);

const char* status_without_exceptions(const char* path) {
  st_file* file = nullptr;
  const st_status status = st_open(path, nullptr, &file, nullptr);
  st_free(file);
  return st_status_name(status);
}
