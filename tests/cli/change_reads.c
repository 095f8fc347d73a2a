// Changes a byte of the data that is read by position from files called *.safetensors, as a damaged disk would.
//
// Loaded before the C library by legacy_test.py.
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_written_file(int file) {
  static const char end[] = ".safetensors";
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t n = readlink(link, path, sizeof path);
  const ssize_t length = sizeof end - 1;
  return n >= length && memcmp(path + n - length, end, sizeof end - 1) == 0;
}

ssize_t pread(int file, void *to, size_t n, off_t offset) {
  static ssize_t (*next)(int, void *, size_t, off_t);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "pread");
  const ssize_t got = next(file, to, n, offset);
  if (got > 0 && offset > 8 && is_written_file(file)) ((char *)to)[got - 1] ^= 1;
  return got;
}
