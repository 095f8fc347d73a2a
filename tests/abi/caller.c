/* A program compiled with the header of an earlier version, run with the library of today.
 *
 * Its structs are as large as they were then, with guards behind them: a library that writes what the caller has no
 * room for is found out here, and not as a crash in somebody's program after an update.
 * SPDX-License-Identifier: Apache-2.0 */
#include <safetensors/safetensors.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                             \
  do {                                               \
    if (!(condition)) {                              \
      printf("line %d: %s\n", __LINE__, #condition); \
      return 1;                                      \
    }                                                \
  } while (0)

enum { kGuard = 0x5A, kGuardBytes = 256 };

struct guarded_error {
  st_error error;
  unsigned char guard[kGuardBytes];
};

struct guarded_options {
  st_open_options options;
  unsigned char guard[kGuardBytes];
};

static int untouched(const unsigned char *guard) {
  int i;
  for (i = 0; i < kGuardBytes; ++i) {
    if (guard[i] != kGuard) return 0;
  }
  return 1;
}

static const unsigned char file[] =
    "\x50\0\0\0\0\0\0\0"
    "{\"__metadata__\":{\"k\":\"v\"},\"t\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]}} "
    "\x01\x00\xfe\xff";

int main(void) {
  struct guarded_error e;
  struct guarded_options o;
  st_file *opened = NULL;
  const st_tensor *tensor;
  int16_t values[2] = {0, 0};
  size_t length = 0;
  const char *value;

  memset(&e, kGuard, sizeof(e));
  memset(&o, kGuard, sizeof(o));
  e.error = ST_INIT(st_error);
  o.options = ST_INIT(st_open_options);

  CHECK(st_version() >= (((uint32_t)ST_VERSION_MAJOR << 16) | ((uint32_t)ST_VERSION_MINOR << 8)));
  CHECK(st_open_memory(file, sizeof(file) - 2, NULL, NULL, &o.options, &opened, &e.error) == ST_ERR_COVERAGE);
  CHECK(e.error.struct_size == sizeof(st_error) && e.error.status == ST_ERR_COVERAGE && untouched(e.guard));
  CHECK(strcmp(st_status_name(e.error.status), "ST_ERR_COVERAGE") == 0);

  CHECK(st_open_memory(file, sizeof(file) - 1, NULL, NULL, &o.options, &opened, &e.error) == ST_OK);
  CHECK(untouched(o.guard) && untouched(e.guard));
  tensor = st_get_tensor(opened, "t");
  CHECK(tensor && st_tensor_dtype(tensor) == ST_I16 && st_tensor_rank(tensor) == 1 && st_tensor_shape(tensor)[0] == 2);
  CHECK(st_tensor_read(tensor, values, sizeof(values), &e.error) == ST_OK && values[0] == 1 && values[1] == -2);
  value = st_get_metadata(opened, "k", &length);
  CHECK(value && length == 1 && value[0] == 'v');
  st_free(opened);

  o.options.flags = 1u << 31;
  CHECK(st_open_memory(file, sizeof(file) - 1, NULL, NULL, &o.options, &opened, &e.error) == ST_ERR_UNSUPPORTED);
  return 0;
}
