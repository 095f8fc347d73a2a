/* Advice about tensors reaches the system, and changes no byte.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "folder.h"

static int calls, file_calls, last_advice;
static off_t last_offset;

/* These replace the C library's functions, for libsafetensors too. Both have the same constants. */
int madvise(void *address, size_t length, int advice) {
  ++calls;
  last_advice = advice;
  return (int)syscall(SYS_madvise, address, length, advice);
}

int posix_madvise(void *address, size_t length, int advice) { return madvise(address, length, advice); }

int posix_fadvise(int descriptor, off_t offset, off_t length, int advice) {
  (void)descriptor;
  (void)length;
  ++file_calls;
  last_offset = offset;
  last_advice = advice;
  return 0;
}

static void advise(const st_tensor *const *tensors, st_advice advice) {
  calls = file_calls = last_advice = 0;
  st_tensor_advise(tensors, 2, advice);
}

/* For a file that is read, the page cache is emptied through the descriptor. A file that may be mapped later is left
 * alone, since other processes share its pages. */
static void of_files_that_are_not_mapped(void) {
  static const struct {
    st_io io;
    int calls;
  } kCases[] = {{ST_IO_READ, 2}, {ST_IO_AUTO, 0}};
  size_t i;
  for (i = 0; i < 2; ++i) {
    const st_open_options options = test_mode(kCases[i].io);
    const st_tensor *both[2];
    st_file *file = NULL;
    CHECK(st_open("x.safetensors", &options, &file, NULL) == ST_OK);
    both[0] = st_get_tensor_at(file, 0);
    both[1] = st_get_tensor_at(file, 1);
    advise(both, ST_ADVICE_DONT_NEED);
    CHECK(file_calls == kCases[i].calls && (file_calls == 0 || last_advice == POSIX_FADV_DONTNEED));
    CHECK(file_calls == 0 || last_offset == (off_t)st_tensor_offset(both[1]));
    st_free(file);
  }
}

/* For the system, a length of 0 means to the end of the file: the pages of all later tensors. */
static void of_an_empty_tensor(void) {
  const st_open_options options = test_mode(ST_IO_READ);
  test_bytes bytes = test_file(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[20],\"data_offsets\":[0,20]}}",
      20);
  const st_tensor *both[2];
  st_file *file = NULL;
  test_save("empty.safetensors", bytes.data, bytes.size);
  CHECK(st_open("empty.safetensors", &options, &file, NULL) == ST_OK);
  both[0] = st_get_tensor(file, "a");
  both[1] = both[0];
  advise(both, ST_ADVICE_DONT_NEED);
  CHECK(file_calls == 0);
  both[1] = st_get_tensor(file, "b");
  advise(both, ST_ADVICE_DONT_NEED);
  CHECK(file_calls == 1);
  st_free(file);
  test_release(&bytes);
}

int main(void) {
  test_bytes bytes = test_file(TEST_TWO, 20);
  const st_open_options options = test_mode(ST_IO_MAP);
  const st_tensor *both[2];
  st_file *file = NULL;
  test_enter_folder();
  test_save("x.safetensors", bytes.data, bytes.size);
  CHECK(st_open("x.safetensors", &options, &file, NULL) == ST_OK);
  both[0] = st_get_tensor_at(file, 0);
  both[1] = st_get_tensor_at(file, 1);
  advise(both, ST_ADVICE_WILL_NEED);
  CHECK(calls == 2 && last_advice == MADV_WILLNEED);
  advise(both, ST_ADVICE_DONT_NEED);
  CHECK(calls == 2 && last_advice == MADV_DONTNEED);
  advise(both, 77);
  CHECK(calls == 0);
  CHECK(((const unsigned char *)st_tensor_data(both[0]))[5] == 5);
  st_free(file);
  of_files_that_are_not_mapped();
  of_an_empty_tensor();
  test_release(&bytes);
  test_leave_folder();
  return test_result();
}
