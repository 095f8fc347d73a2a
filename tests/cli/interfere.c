// Does what others may do while the command runs, as ST_INTERFERENCE says:
//   reads  a byte of the data that is read by position from *.safetensors is another one, as from a damaged disk
//   index  where a new *.index.json is going to appear, there is one of somebody else's
//
// Loaded before the C library by the tests of convert and split.
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int asked_for(const char *what) {
  const char *asked = getenv("ST_INTERFERENCE");
  return asked != NULL && strcmp(asked, what) == 0;
}

static int ends_with(const char *text, size_t n, const char *end) {
  const size_t length = strlen(end);
  return n >= length && memcmp(text + n - length, end, length) == 0;
}

static int is_written_file(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t n = readlink(link, path, sizeof path);
  return n > 0 && ends_with(path, (size_t)n, ".safetensors");
}

ssize_t pread(int file, void *to, size_t n, off_t offset) {
  static ssize_t (*next)(int, void *, size_t, off_t);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "pread");
  const ssize_t got = next(file, to, n, offset);
  if (got > 0 && offset > 8 && asked_for("reads") && is_written_file(file)) ((char *)to)[got - 1] ^= 1;
  return got;
}

static void be_first(int folder, const char *name) {
  if (!asked_for("index") || !ends_with(name, strlen(name), ".index.json")) return;
  const int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (file < 0) return;
  if (write(file, "theirs", 6) != 6) abort();
  close(file);
}

int linkat(int from, const char *name, int to, const char *new_name, int flags) {
  static int (*next)(int, const char *, int, const char *, int);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "linkat");
  be_first(to, new_name);
  return next(from, name, to, new_name, flags);
}

int renameat(int from, const char *name, int to, const char *new_name) {
  static int (*next)(int, const char *, int, const char *);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "renameat");
  be_first(to, new_name);
  return next(from, name, to, new_name);
}
