/* A process with at most 256 descriptors can open a model of 1,500 shards: shards keep no unneeded descriptor.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "folder.h"

enum { FILES = 1500, DESCRIPTORS = 256 };

static st_file *files[FILES];

static void path_of(int i, char *path) { sprintf(path, "model-%05d-of-%05d.safetensors", i + 1, FILES); }

static void make_files(void) {
  int i;
  for (i = 0; i < FILES; ++i) {
    char path[64], header[100];
    snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}");
    test_bytes file = test_file(header, 4);
    memcpy(file.data + file.size - 4, &i, 4);
    path_of(i, path);
    test_save(path, file.data, file.size);
    test_release(&file);
  }
}

static int open_descriptors(void) {
  int fd, open = 0;
  for (fd = 0; fd < DESCRIPTORS; ++fd) open += fcntl(fd, F_GETFD) != -1;
  return open;
}

static void all_open_at_once(st_io io) {
  const st_open_options options = test_mode(io);
  const int before = open_descriptors();
  int i, wrong = 0;
  for (i = 0; i < FILES; ++i) {
    char path[64];
    st_error err = ST_INIT(st_error);
    path_of(i, path);
    if (st_open(path, &options, &files[i], &err) == ST_OK) continue;
    CHECK_FOR(err.message, files[i] != NULL);
    break;
  }
  printf("%s: %d files open, with %d descriptors\n", kModes[io], i, open_descriptors() - before);
  while (i-- > 0) {
    const st_tensor *tensor = st_get_tensor(files[i], "t");
    int value = -1;
    wrong += st_tensor_read(tensor, &value, sizeof value, NULL) != ST_OK || value != i;
    if (st_tensor_data(tensor) != NULL) wrong += memcmp(st_tensor_data(tensor), &value, sizeof value) != 0;
  }
  CHECK_FOR(kModes[io], wrong == 0);
  for (i = 0; i < FILES; ++i) {
    st_free(files[i]);
    files[i] = NULL;
  }
  CHECK_FOR(kModes[io], open_descriptors() == before);
}

/* At most a quarter of the process's limit, and no standard descriptor. */
static void few_descriptors_are_not_used_up(void) {
  struct rlimit usual, small;
  const int before = open_descriptors(), input = dup(0);
  int i, opened = 0;
  char path[64];
  CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  small = usual;
  small.rlim_cur = 64;
  CHECK(setrlimit(RLIMIT_NOFILE, &small) == 0);
  close(0);
  for (i = 0; i < 200; ++i) {
    path_of(i, path);
    opened += st_open(path, NULL, &files[i], NULL) == ST_OK;
  }
  CHECK(opened == 200);
  CHECK(fcntl(0, F_GETFD) == -1);
  CHECK(open_descriptors() - before <= 16);
  for (i = 0; i < 200; ++i) {
    st_free(files[i]);
    files[i] = NULL;
  }
  CHECK(dup2(input, 0) == 0 || input < 0);
  close(input);
  CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
}

/* Failed opens leak no descriptor. */
static void a_refused_file_leaves_no_descriptor(void) {
  const int before = open_descriptors();
  st_io io;
  test_save("bad", "\x08\0\0\0\0\0\0\0{\"a\":1} ", 16);
  for (io = ST_IO_AUTO; io <= ST_IO_READ; ++io) {
    const st_open_options options = test_mode(io);
    st_file *out = NULL;
    CHECK_FOR(kModes[io], st_open("bad", &options, &out, NULL) == ST_ERR_SCHEMA);
    CHECK_FOR(kModes[io], st_open("/dev/null", &options, &out, NULL) == ST_ERR_OPEN);
  }
  CHECK(open_descriptors() == before);
}

static void without_a_descriptor_left(void) {
  int taken[DESCRIPTORS], n = 0, i;
  char path[64];
  st_error err = ST_INIT(st_error);
  st_file *out = NULL;
  path_of(0, path);
  while ((taken[n] = open("/dev/null", O_RDONLY)) >= 0) ++n;
  CHECK(st_open(path, NULL, &out, &err) == ST_ERR_OPEN && err.os_error == EMFILE && out == NULL);
  for (i = 0; i < n; ++i) close(taken[i]);
}

int main(void) {
  const struct rlimit few = {DESCRIPTORS, DESCRIPTORS};
  alarm(120);
  test_enter_folder();
  make_files();
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  all_open_at_once(ST_IO_MAP);
  all_open_at_once(ST_IO_COPY);
  all_open_at_once(ST_IO_AUTO);
  few_descriptors_are_not_used_up();
  a_refused_file_leaves_no_descriptor();
  without_a_descriptor_left();
  test_leave_folder();
  return test_result();
}
