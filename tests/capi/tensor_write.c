/* st_tensor_write replaces the bytes of one tensor in place, and nothing else. After an error, the file is unchanged.
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "folder.h"

#if !defined(_WIN32)
#include <errno.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#endif

enum { LARGE = 9 * 1000 * 1000 + 1 };

static const char *const kHeader =
    "{\"__metadata__\":{\"k\":\"v\"},"
    "\"first\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[5,5]},"
    "\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[5,9]},"
    "\"small\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[9,11]},"
    "\"large\":{\"dtype\":\"I8\",\"shape\":[9000001],\"data_offsets\":[11,9000012]},"
    "\"last\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[9000012,9000020]}}";

static test_bytes expected; /* the content of the file "model" */
static unsigned char data[LARGE];
static st_error error;

static void make(void) { test_save("model", expected.data, expected.size); }

static int is_as_expected(const char *path) {
  unsigned char *content = test_alloc(expected.size + 1);
  FILE *file = fopen(path, "rb");
  const size_t size = file == NULL ? 0 : fread(content, 1, expected.size + 1, file);
  const int same = size == expected.size && memcmp(content, expected.data, size) == 0;
  if (file != NULL) fclose(file);
  free(content);
  return same;
}

static unsigned char *place_of(const char *name) {
  st_file *file = NULL;
  unsigned char *place;
  if (test_open(&expected, NULL, &file, NULL) != ST_OK) abort();
  place = expected.data + st_tensor_offset(st_get_tensor(file, name));
  st_free(file);
  return place;
}

static void fill(unsigned char byte) { memset(data, byte, sizeof data); }

static void each_tensor_is_replaced_alone(void) {
  static const struct {
    const char *name;
    size_t size;
  } kTensors[] = {{"first", 5}, {"none", 0}, {"small", 2}, {"large", LARGE}, {"last", 8}};
  st_write_options options = ST_INIT(st_write_options);
  size_t i;
  make();
  for (i = 0; i < sizeof kTensors / sizeof kTensors[0]; ++i) {
    const char *const name = kTensors[i].name;
    const size_t size = kTensors[i].size;
    fill((unsigned char)(0xA0 + i));
    options.flags = i % 2 == 0 ? 0 : ST_WRITE_SYNC;
    CHECK_FOR(name, st_tensor_write("model", name, size == 0 ? NULL : data, size, &options, &error) == ST_OK);
    memcpy(place_of(name), data, size);
    CHECK_FOR(name, is_as_expected("model"));
  }
  memset(expected.data + (place_of("first") - expected.data) + 5, 0x3F, 4);
  CHECK(st_tensor_write_n("model...", 5, "a\0b...", 3, "????", 4, NULL, &error) == ST_OK && is_as_expected("model"));
}

static void a_wrong_call_changes_nothing(void) {
  static const struct {
    const char *path, *name;
    size_t size;
    st_status status;
    const char *says;
  } kCalls[] = {
      {"model", "absent", 5, ST_ERR_NOT_FOUND, "no tensor 'absent' in 'model'"},
      {"model", "a", 4, ST_ERR_NOT_FOUND, "no tensor 'a'"},
      {"model", "__metadata__", 4, ST_ERR_NOT_FOUND, "no tensor '__metadata__'"},
      {"model", "first", 4, ST_ERR_BUFFER_SIZE, "tensor 'first': expected 5 bytes, got 4"},
      {"model", "first", 6, ST_ERR_BUFFER_SIZE, "tensor 'first': expected 5 bytes, got 6"},
      {"model", "first", 0, ST_ERR_BUFFER_SIZE, "tensor 'first': expected 5 bytes, got 0"},
      {"model", "none", 1, ST_ERR_BUFFER_SIZE, "tensor 'none': expected 0 bytes, got 1"},
      {"absent", "first", 5, ST_ERR_OPEN, "'absent'"},
      {".", "first", 5, ST_ERR_OPEN, "'.'"},
      {"bad", "first", 5, ST_ERR_COVERAGE, "'bad'"},
      {"model.bt", "t", 2, ST_ERR_UNSUPPORTED, "only tensors of safetensors files can be replaced"},
  };
  const uint64_t shape[] = {2};
  st_write_options options = ST_INIT(st_write_options);
  st_writer *writer = NULL;
  size_t i;
  make();
  test_save("bad", expected.data, expected.size - 1);
  options.format = ST_FORMAT_BINTENSORS;
  CHECK(st_writer_new(&writer, NULL) == ST_OK &&
        st_writer_add(writer, "t", ST_U8, 1, shape, "ab", NULL, NULL) == ST_OK);
  CHECK(st_writer_begin(writer, "model.bt", &options, NULL) == ST_OK && st_writer_finish(writer, NULL) == ST_OK);
  st_writer_free(writer);
  fill('x');
  for (i = 0; i < sizeof kCalls / sizeof kCalls[0]; ++i) {
    const st_status status = st_tensor_write(kCalls[i].path, kCalls[i].name, data, kCalls[i].size, NULL, &error);
    CHECK_FOR(kCalls[i].says, status == kCalls[i].status && error.status == status);
    CHECK_FOR(error.message, strstr(error.message, kCalls[i].says) != NULL);
  }
  CHECK(st_tensor_write_n("model\0", 6, "first", 5, data, 5, NULL, &error) == ST_ERR_ARGUMENT);
  options = ST_INIT(st_write_options);
  options.flags = ST_WRITE_NO_REPLACE;
  CHECK(st_tensor_write("model", "first", data, 5, &options, &error) == ST_ERR_UNSUPPORTED);
  options.struct_size = 3;
  CHECK(st_tensor_write("model", "first", data, 5, &options, &error) == ST_ERR_STRUCT_SIZE);
  CHECK(is_as_expected("model"));
}

/* Even if it is mapped: the data of a call may be a view of the file that the call changes. */
static void an_open_file_shows_the_new_bytes(void) {
  st_io io;
  for (io = ST_IO_AUTO; io <= ST_IO_READ; ++io) {
    const st_open_options options = test_mode(io);
    const st_tensor *large;
    const unsigned char *view;
    unsigned char got[5] = {0};
    st_file *file = NULL;
    make();
    CHECK_FOR(kModes[io], st_open("model", &options, &file, NULL) == ST_OK);
    large = st_get_tensor(file, "large");
    view = st_tensor_data(large);
    fill((unsigned char)io);
    CHECK_FOR(kModes[io], st_tensor_write("model", "first", data, 5, NULL, &error) == ST_OK);
    CHECK_FOR(kModes[io],
              st_tensor_read(st_get_tensor(file, "first"), got, 5, NULL) == ST_OK && memcmp(got, data, 5) == 0);
    memcpy(place_of("first"), data, 5);
    if (view != NULL) {
      CHECK_FOR(kModes[io], st_tensor_write("model", "large", view, LARGE, NULL, &error) == ST_OK);
      CHECK_FOR(kModes[io], is_as_expected("model"));
      CHECK_FOR(kModes[io], st_tensor_write("model", "last", view, 8, NULL, &error) == ST_OK);
      memcpy(place_of("last"), place_of("large"), 8);
    }
    CHECK_FOR(kModes[io], is_as_expected("model"));
    st_free(file);
  }
}

#if !defined(_WIN32)

/* Other names of the file show the change; a replaced file would have another inode. */
static void links_are_kept(void) {
  struct stat before, after;
  make();
  CHECK(link("model", "hard") == 0 && symlink("model", "soft") == 0 && stat("model", &before) == 0);
  fill('l');
  memcpy(place_of("first"), data, 5);
  CHECK(st_tensor_write("soft", "first", data, 5, NULL, &error) == ST_OK);
  CHECK(is_as_expected("hard") && is_as_expected("model") && is_as_expected("soft"));
  CHECK(lstat("soft", &after) == 0 && S_ISLNK(after.st_mode));
  CHECK(stat("model", &after) == 0 && after.st_ino == before.st_ino && after.st_size == before.st_size);
  CHECK(unlink("hard") == 0 && unlink("soft") == 0);
}

/* A pair of pipes with a child that does something to the file "model" and then waits. */
static pid_t begin_child(int (*does)(void), int *end) {
  int ready[2], done[2];
  char byte = 0;
  pid_t child;
  if (pipe(ready) != 0 || pipe(done) != 0) abort();
  child = fork();
  if (child == 0) {
    close(done[1]);
    if (does() != 0 || write(ready[1], "x", 1) != 1) _exit(1);
    _exit(read(done[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(done[0]);
  close(ready[1]);
  CHECK(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  *end = done[1];
  return child;
}

static int lock_as_an_edit(void) { return flock(open("model", O_RDWR), LOCK_EX); }

static void another_process_that_edits_is_waited_for(void) {
  int end = -1, status = 0;
  pid_t child;
  make();
  fill('w');
  child = begin_child(lock_as_an_edit, &end);
  CHECK(st_tensor_write("model", "first", data, 5, NULL, &error) == ST_ERR_STATE);
  CHECK_FOR(error.message, strstr(error.message, "is being edited by another process") != NULL);
  CHECK(is_as_expected("model"));
  close(end);
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(st_tensor_write("model", "first", data, 5, NULL, &error) == ST_OK);
  memcpy(place_of("first"), data, 5);
  CHECK(is_as_expected("model"));
}

static void a_read_only_file_is_refused(void) {
  int status = 0;
  pid_t child;
  make();
  CHECK(chmod("model", 0444) == 0 && chmod(".", 0755) == 0);
  child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(12345) != 0) _exit(2);
    const st_status refused = st_tensor_write("model", "first", "12345", 5, NULL, &error);
    _exit(refused == ST_ERR_OPEN && error.os_error == EACCES ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(is_as_expected("model") && chmod("model", 0600) == 0);
}

/* The kernel would write the bytes before the limit. */
static void a_limit_inside_of_the_tensor_changes_nothing(void) {
  struct rlimit before, limit;
  make();
  fill('r');
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = LARGE / 2;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  CHECK(st_tensor_write("model", "large", data, LARGE, NULL, &error) == ST_ERR_WRITE && error.os_error == EFBIG);
  CHECK_FOR(error.message, strstr(error.message, "part of the new bytes") == NULL);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(is_as_expected("model"));
}

/* Its copies could be a mixture of old and new bytes. */
static void a_writer_that_copies_from_the_file_fails(void) {
  const struct timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
  st_file *file = NULL;
  st_writer *writer = NULL;
  make();
  CHECK(utimensat(AT_FDCWD, "model", long_ago, 0) == 0);
  CHECK(st_open("model", NULL, &file, NULL) == ST_OK && st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add_tensor(writer, NULL, 0, st_get_tensor(file, "first"), NULL) == ST_OK);
  CHECK(st_tensor_write("model", "last", "12345678", 8, NULL, &error) == ST_OK);
  memcpy(place_of("last"), "12345678", 8);
  CHECK(st_writer_begin(writer, "copy", NULL, NULL) == ST_OK && st_writer_finish(writer, NULL) == ST_ERR_READ);
  st_writer_free(writer);
  st_free(file);
}

#endif

int main(void) {
  test_end_after(120);
  error = ST_INIT(st_error);
  expected = test_file(kHeader, 9000020);
  test_enter_folder();
  each_tensor_is_replaced_alone();
  a_wrong_call_changes_nothing();
  an_open_file_shows_the_new_bytes();
#if !defined(_WIN32)
  links_are_kept();
  another_process_that_edits_is_waited_for();
  a_read_only_file_is_refused();
  a_limit_inside_of_the_tensor_changes_nothing();
  a_writer_that_copies_from_the_file_fails();
#endif
  test_leave_folder();
  test_release(&expected);
  return test_result();
}
