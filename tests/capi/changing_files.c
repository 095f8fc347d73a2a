/* While a file is open, it may be truncated, replaced, removed or overwritten, and the working directory may change.
 * Reading then returns the bytes of the open file or an error: never the bytes of another file, and never a signal.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <fcntl.h>

#include "folder.h"

enum { BIG = 1 << 20 };

static const char *const kHeader =
    "{\"near\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
    "\"far\":{\"dtype\":\"U8\",\"shape\":[1048572],\"data_offsets\":[4,1048576]}}";

static unsigned char buffer[BIG];

static void save(const char *path, unsigned char fill) {
  test_bytes file = test_file(kHeader, BIG);
  memset(file.data + file.size - BIG, fill, BIG);
  test_save(path, file.data, file.size);
  test_release(&file);
}

static int all_are(unsigned char fill, const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  size_t i;
  for (i = 0; i < size && at[i] == fill; ++i) {}
  return i == size;
}

static st_status read_far(const st_file *file, st_error *err) {
  const st_tensor *far = st_get_tensor(file, "far");
  return st_tensor_read(far, buffer, (size_t)st_tensor_bytes(far), err);
}

static st_file *open_model(const char *path, st_io io) {
  const st_open_options options = test_mode(io);
  st_file *out = NULL;
  CHECK_FOR(kModes[io], st_open(path, &options, &out, NULL) == ST_OK);
  return out;
}

/* ---- what happens to the open file, and what reading it then gives --------------------------------------------------- */

static void cut(void) { CHECK(truncate("model", 400) == 0); }
static void empty(void) { CHECK(truncate("model", 0) == 0); }
static void overwrite_header(void) {
  const int fd = open("model", O_WRONLY);
  CHECK(pwrite(fd, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF garbage ", 17, 0) == 17);
  close(fd);
}
static void replace(void) {
  save("new", 'B');
  CHECK(rename("new", "model") == 0);
}
static void replace_by_shorter(void) {
  test_save("new", "x", 1);
  CHECK(rename("new", "model") == 0);
}
static void replace_by_a_pipe(void) { CHECK(unlink("model") == 0 && mkfifo("model", 0600) == 0); }
static void remove_file(void) { CHECK(unlink("model") == 0); }
static void rename_file(void) { CHECK(rename("model", "renamed") == 0); }
static void change_directory(void) { CHECK(chdir("elsewhere") == 0); }

static const struct {
  const char *name;
  void (*happens)(void);
  int still_readable; /* the open file's bytes are still available */
  int unchanged;      /* they are those of then */
} kEvents[] = {
    {"nothing", NULL, 1, 1},
    {"the file is cut", cut, 0, 0},
    {"the file is emptied", empty, 0, 0},
    {"the header is overwritten", overwrite_header, 1, 0},
    {"another file is renamed over it", replace, 1, 1},
    {"a shorter file is renamed over it", replace_by_shorter, 1, 1},
    {"a pipe takes its place", replace_by_a_pipe, 1, 1},
    {"it is removed", remove_file, 1, 1},
    {"it is renamed", rename_file, 1, 1},
    {"the working directory changes", change_directory, 1, 1},
};

static void reading_after(size_t i, st_io io) {
  char what[100];
  st_error err = ST_INIT(st_error);
  size_t len = 0;
  snprintf(what, sizeof what, "%s, %s", kEvents[i].name, kModes[io]);
  save("model", 'A');
  st_file *file = open_model("model", io);
  if (kEvents[i].happens != NULL) kEvents[i].happens();
  memset(buffer, 0, sizeof buffer);
  const st_status status = read_far(file, &err);
  if (kEvents[i].still_readable) {
    CHECK_FOR(what, status == ST_OK);
    CHECK_FOR(what, all_are('A', buffer, BIG - 4));
  } else {
    CHECK_FOR(what, status == ST_ERR_TRUNCATED || status == ST_ERR_READ);
    CHECK_FOR(what, err.status == status && err.message[0] != '\0');
  }
  if (status != ST_OK && kEvents[i].still_readable) fprintf(stderr, "  %s: %s\n", what, err.message);
  CHECK_FOR(what, st_check_unchanged(file, 0, &err) == (kEvents[i].unchanged ? ST_OK : ST_ERR_READ));
  CHECK_FOR(what, st_check_unchanged(file, 1, NULL) == ST_ERR_RANGE);
  /* The header was read once and is ours. */
  CHECK_FOR(what, strcmp(st_get_header(file, 0, &len), kHeader) == 0 && len == strlen(kHeader));
  st_free(file);
  CHECK(chdir(test_folder) == 0);
  unlink("model");
  unlink("renamed");
}

/* A view is the file itself: the mapping does not change when another file gets the name. */
static void a_view_outlives_its_name(void) {
  save("model", 'A');
  st_file *file = open_model("model", ST_IO_MAP);
  replace();
  CHECK(all_are('A', st_tensor_data(st_get_tensor(file, "far")), BIG - 4));
  remove_file();
  CHECK(all_are('A', st_tensor_data(st_get_tensor(file, "far")), BIG - 4));
  st_free(file);
}

/* By a relative path, resolved when it was used. */
static void a_path_is_kept_as_it_was_given(void) {
  save("elsewhere/model", 'C');
  st_file *file = open_model("elsewhere/../elsewhere/model", ST_IO_MAP);
  CHECK(strcmp(st_get_shard_path(file, 0), "elsewhere/../elsewhere/model") == 0);
  CHECK(chdir("/") == 0);
  CHECK(read_far(file, NULL) == ST_OK && all_are('C', buffer, BIG - 4));
  CHECK(chdir(test_folder) == 0 && unlink("elsewhere/model") == 0);
  st_free(file);
}

/* The library's own descriptor: the caller's may be closed, or used for something else. */
static void a_descriptor_is_not_needed_after_opening(void) {
  st_io io;
  save("model", 'A');
  save("other", 'B');
  for (io = ST_IO_AUTO; io <= ST_IO_READ; ++io) {
    const st_open_options options = test_mode(io);
    st_file *out = NULL;
    const int fd = open("model", O_RDONLY);
    CHECK_FOR(kModes[io], st_open_fd(fd, 0, 0, &options, &out, NULL) == ST_OK);
    const int other = open("other", O_RDONLY);
    CHECK(dup2(other, fd) == fd);
    CHECK_FOR(kModes[io], read_far(out, NULL) == ST_OK && all_are('A', buffer, BIG - 4));
    close(fd);
    close(other);
    CHECK_FOR(kModes[io], read_far(out, NULL) == ST_OK && all_are('A', buffer, BIG - 4));
    st_free(out);
  }
  unlink("model");
  unlink("other");
}

int main(void) {
  size_t i;
  st_io io;
  alarm(60);
  test_enter_folder();
  CHECK(mkdir("elsewhere", 0700) == 0);
  for (i = 0; i < sizeof kEvents / sizeof kEvents[0]; ++i) {
    for (io = ST_IO_AUTO; io <= ST_IO_READ; ++io) reading_after(i, io);
  }
  a_view_outlives_its_name();
  a_path_is_kept_as_it_was_given();
  a_descriptor_is_not_needed_after_opening();
  test_leave_folder();
  return test_result();
}
