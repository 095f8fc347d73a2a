/* Writing from C: in one piece, in parts, from another file; errors; edits.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int syncs;

/* Instead of the C library's. */
int fsync(int file) {
  ++syncs;
  return (int)syscall(SYS_fsync, file);
}

#define CHECK_OK(call)                                          \
  do {                                                          \
    st_error err = ST_INIT(st_error);                           \
    const int fine = (call) == ST_OK;                           \
    test_check(fine, #call, fine ? "" : err.message, __LINE__); \
  } while (0)

static const float kWeights[6] = {1, 2, 3, 4, 5, 6};
static const uint64_t kShape[2] = {2, 3};

static float weight(const char *path, const char *name, size_t i) {
  st_file *file = NULL;
  float values[6] = {0};
  if (st_open(path, NULL, &file, NULL) != ST_OK) return -1;
  const st_tensor *tensor = st_get_tensor(file, name);
  if (tensor == NULL || st_tensor_read(tensor, values, sizeof values, NULL) != ST_OK) values[i] = -2;
  st_free(file);
  return values[i];
}

static void test_whole_and_pieces(const char *path) {
  st_writer *writer = NULL;
  size_t index = 99;
  CHECK_OK(st_writer_new(&writer, &err));
  CHECK_OK(st_writer_set_metadata(writer, "format", "pt", &err));
  CHECK_OK(st_writer_add(writer, "whole", ST_F32, 2, kShape, kWeights, NULL, &err));
  CHECK_OK(st_writer_add(writer, "pieces", ST_F32, 2, kShape, NULL, &index, &err));
  CHECK(index == 1);
  CHECK_OK(st_writer_begin(writer, path, NULL, &err));
  CHECK_OK(st_writer_put(writer, index, 8, kWeights + 2, 16, &err));
  /* A call with invalid arguments leaves the writer unchanged. */
  CHECK(st_writer_put(writer, 7, 0, kWeights, 4, NULL) == ST_ERR_RANGE);
  CHECK(st_writer_put(writer, index, 20, kWeights, 8, NULL) == ST_ERR_RANGE);
  CHECK(st_writer_put(writer, index, 0, NULL, 8, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_writer_put(writer, 0, 0, kWeights, 4, NULL) == ST_ERR_STATE);
  CHECK(st_writer_finish(writer, NULL) == ST_ERR_STATE);
  CHECK_OK(st_writer_put(writer, index, 0, kWeights, 8, &err));
  CHECK_OK(st_writer_finish(writer, &err));
  st_writer_free(writer);
  CHECK(weight(path, "whole", 5) == 6 && weight(path, "pieces", 1) == 2);
}

static void test_copy_and_rename(const char *from, const char *to) {
  st_file *file = NULL;
  st_writer *writer = NULL;
  CHECK_OK(st_open(from, NULL, &file, &err));
  CHECK_OK(st_writer_new(&writer, &err));
  CHECK_OK(st_writer_copy_metadata(writer, file, &err));
  CHECK_OK(st_writer_add_tensor(writer, NULL, 0, st_get_tensor(file, "whole"), &err));
  CHECK_OK(st_writer_add_tensor(writer, "a\0b", 3, st_get_tensor(file, "pieces"), &err));
  CHECK_OK(st_writer_begin(writer, to, NULL, &err));
  CHECK_OK(st_writer_finish(writer, &err));
  st_writer_free(writer);
  st_free(file);
  CHECK(weight(to, "whole", 3) == 4);
  CHECK_OK(st_open(to, NULL, &file, &err));
  CHECK(st_get_tensor_n(file, "a\0b", 3) != NULL);
  CHECK(strcmp(st_get_metadata(file, "format", NULL), "pt") == 0);
  st_free(file);
}

static void test_refused(const char *path) {
  st_writer *writer = NULL;
  st_error refusal = ST_INIT(st_error);
  st_write_options options = ST_INIT(st_write_options);
  CHECK_OK(st_writer_new(&writer, &err));
  CHECK_OK(st_writer_add(writer, "a", ST_U8, 0, NULL, "x", NULL, &err));
  CHECK(st_writer_add(writer, "a", ST_U8, 0, NULL, "x", NULL, NULL) == ST_ERR_DUPLICATE);
  CHECK(st_writer_add(writer, NULL, ST_U8, 0, NULL, "x", NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_writer_add(writer, "b", ST_U8, 1, NULL, "x", NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_writer_add(writer, "b", 23, 0, NULL, "x", NULL, NULL) == ST_ERR_DTYPE);
  CHECK(st_writer_add(writer, "b", -1, 0, NULL, "x", NULL, NULL) == ST_ERR_DTYPE);
  CHECK(st_writer_add(writer, "b", ST_F4, 0, NULL, "x", NULL, NULL) == ST_ERR_MISALIGNED);
  options.flags = 1u << 30;
  CHECK(st_writer_begin(writer, path, &options, NULL) == ST_ERR_UNSUPPORTED);
  options.flags = 0;
  options.format = 77;
  CHECK(st_writer_begin(writer, path, &options, NULL) == ST_ERR_UNSUPPORTED);
  options.format = 256 + ST_FORMAT_BINTENSORS; /* of which a byte is a known one */
  CHECK(st_writer_begin(writer, path, &options, &refusal) == ST_ERR_UNSUPPORTED);
  CHECK_FOR(refusal.message, strstr(refusal.message, "unknown format 258") != NULL);
  options.format = 0;
  options.reserved = 1;
  CHECK(st_writer_begin(writer, path, &options, NULL) == ST_ERR_ARGUMENT);
  options.reserved = 0;
  options.data_alignment = 24;
  CHECK(st_writer_begin(writer, path, &options, NULL) == ST_ERR_ARGUMENT);
  options.data_alignment = UINT64_C(1) << 21;
  CHECK(st_writer_begin(writer, path, &options, NULL) == ST_ERR_ARGUMENT);
  options.data_alignment = UINT64_C(1) << 63;
  CHECK(st_writer_begin(writer, path, &options, NULL) == ST_ERR_ARGUMENT);
  options.data_alignment = 0;
  options.header_reserve = UINT64_MAX;
  CHECK(st_writer_begin(writer, path, &options, NULL) == ST_ERR_HEADER_SIZE);
  options.header_reserve = 0;
  options.flags = ST_WRITE_NO_REPLACE;
  CHECK(st_writer_begin(writer, path, &options, NULL) == ST_ERR_OPEN);
  CHECK(st_writer_put(writer, 0, 0, "x", 1, NULL) == ST_ERR_STATE);
  CHECK(st_writer_new(NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_writer_begin(NULL, path, NULL, NULL) == ST_ERR_ARGUMENT);
  st_writer_free(writer);
  st_writer_free(NULL);
}

/* Each flag has its own effect, and no other. */
static void test_flags(const char *path) {
  static const struct {
    uint32_t flags;
    int replaces, keeps_order;
  } kFlags[] = {{0, 1, 0},
                {ST_WRITE_SYNC, 1, 0},
                {ST_WRITE_KEEP_ORDER, 1, 1},
                {ST_WRITE_NO_REPLACE, 0, 0},
                {ST_WRITE_SYNC | ST_WRITE_KEEP_ORDER, 1, 1},
                {ST_WRITE_SYNC | ST_WRITE_NO_REPLACE, 0, 0},
                {ST_WRITE_KEEP_ORDER | ST_WRITE_NO_REPLACE, 0, 1}};
  for (size_t i = 0; i < sizeof kFlags / sizeof kFlags[0]; ++i) {
    for (int there = 0; there < 2; ++there) {
      st_write_options options = ST_INIT(st_write_options);
      st_writer *writer = NULL;
      st_file *file = NULL;
      if (there == 0) unlink(path);
      options.flags = kFlags[i].flags;
      CHECK_OK(st_writer_new(&writer, &err));
      CHECK_OK(st_writer_add(writer, "b", ST_U8, 0, NULL, "x", NULL, &err));
      CHECK_OK(st_writer_add(writer, "a", ST_U8, 0, NULL, "y", NULL, &err));
      syncs = 0;
      const int begun = st_writer_begin(writer, path, &options, NULL) == ST_OK;
      CHECK(begun == (there == 0 || kFlags[i].replaces));
      if (begun) CHECK_OK(st_writer_finish(writer, &err));
      if (begun) CHECK((syncs > 0) == ((kFlags[i].flags & ST_WRITE_SYNC) != 0));
      st_writer_free(writer);
      CHECK_OK(st_open(path, NULL, &file, &err));
      if (begun) CHECK(*st_tensor_name(st_get_tensor_at(file, 0), NULL) == (kFlags[i].keeps_order ? 'b' : 'a'));
      st_free(file);
    }
  }
}

/* Without flags, the file that a link leads to is replaced, even if it was removed in the meantime. */
static void test_targets(const char *path, const char *link) {
  static const uint32_t kFlags[] = {0, ST_WRITE_REPLACE_LINK, ST_WRITE_ONLY_UNCHANGED};
  for (size_t i = 0; i < sizeof kFlags / sizeof kFlags[0]; ++i) {
    for (int removed = 0; removed < 2; ++removed) {
      st_write_options options = ST_INIT(st_write_options);
      st_writer *writer = NULL;
      struct stat status;
      unlink(link);
      close(open(path, O_WRONLY | O_CREAT, 0600));
      CHECK(symlink(path, link) == 0);
      options.flags = kFlags[i];
      CHECK_OK(st_writer_new(&writer, &err));
      CHECK_OK(st_writer_begin(writer, link, &options, &err));
      if (removed) unlink(path);
      const int kept = removed && kFlags[i] == ST_WRITE_ONLY_UNCHANGED;
      CHECK(st_writer_finish(writer, NULL) == (kept ? ST_ERR_STATE : ST_OK));
      st_writer_free(writer);
      CHECK(lstat(link, &status) == 0 && S_ISLNK(status.st_mode) == (kFlags[i] != ST_WRITE_REPLACE_LINK));
    }
  }
  unlink(link);
}

static void test_alignments(const char *path) {
  for (uint64_t alignment = 1; alignment <= 4096; alignment *= 2) {
    st_write_options options = ST_INIT(st_write_options);
    st_writer *writer = NULL;
    st_file *file = NULL;
    options.data_alignment = alignment;
    CHECK_OK(st_writer_new(&writer, &err));
    CHECK_OK(st_writer_add(writer, "a", ST_U8, 0, NULL, "x", NULL, &err));
    CHECK_OK(st_writer_begin(writer, path, &options, &err));
    CHECK_OK(st_writer_finish(writer, &err));
    st_writer_free(writer);
    CHECK_OK(st_open(path, NULL, &file, &err));
    const uint64_t offset = st_tensor_offset(st_get_tensor(file, "a"));
    CHECK(offset % alignment == 0 && offset % 8 == 0);
    st_free(file);
  }
}

static void test_abandoned(const char *path) {
  st_writer *writer = NULL;
  CHECK_OK(st_writer_new(&writer, &err));
  CHECK_OK(st_writer_add(writer, "other", ST_F32, 2, kShape, kWeights, NULL, &err));
  CHECK_OK(st_writer_begin(writer, path, NULL, &err));
  st_writer_free(writer);
  CHECK(weight(path, "whole", 0) == 1);
}

static void test_edit_of_bintensors(const char *path) {
  const char *const keys[] = {"note"};
  const char *const values[] = {"hello"};
  st_write_options options = ST_INIT(st_write_options);
  st_writer *writer = NULL;
  st_error refusal = ST_INIT(st_error);
  CHECK_OK(st_writer_new(&writer, &err));
  options.format = ST_FORMAT_BINTENSORS;
  CHECK_OK(st_writer_begin(writer, path, &options, &err));
  CHECK_OK(st_writer_finish(writer, &err));
  st_writer_free(writer);
  CHECK(st_edit_metadata(path, keys, values, 1, NULL, &refusal) == ST_ERR_UNSUPPORTED);
  CHECK_FOR(refusal.message, strstr(refusal.message, "the metadata of bintensors files cannot be edited") != NULL);
  CHECK(st_edit_metadata(path, NULL, NULL, 0, NULL, &refusal) == ST_ERR_UNSUPPORTED);
}

static void test_edit(const char *path) {
  const char *const keys[] = {"note", "format"};
  const char *const values[] = {"hello", NULL};
  st_write_options options = ST_INIT(st_write_options);
  st_file *file = NULL;
  CHECK_OK(st_edit_metadata(path, keys, values, 2, NULL, &err));
  options.flags = ST_WRITE_KEEP_ORDER;
  CHECK(st_edit_metadata(path, keys, values, 2, &options, NULL) == ST_ERR_UNSUPPORTED);
  CHECK(st_edit_metadata("/nonexistent", keys, values, 2, NULL, NULL) == ST_ERR_OPEN);
  CHECK(st_edit_metadata(path, NULL, values, 2, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK_OK(st_edit_metadata(path, NULL, NULL, 0, NULL, &err));
  CHECK_OK(st_open(path, NULL, &file, &err));
  CHECK(st_count_metadata(file) == 1 && strcmp(st_get_metadata(file, "note", NULL), "hello") == 0);
  st_free(file);
  CHECK(weight(path, "pieces", 4) == 5);
}

static ino_t inode_of(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

/* Options of an edit: sync makes one sync, an alignment moves the data, a reserve leaves space for the next edit. */
static void test_edit_options(const char *path) {
  const char *const key = "note";
  static char value[3001];
  const char *const long_value = value;
  const char *const short_value = "x";
  for (int sync = 0; sync < 2; ++sync) {
    st_write_options options = ST_INIT(st_write_options);
    st_writer *writer = NULL;
    st_file *file = NULL;
    CHECK_OK(st_writer_new(&writer, &err));
    CHECK_OK(st_writer_add(writer, "a", ST_U8, 0, NULL, "x", NULL, &err));
    CHECK_OK(st_writer_begin(writer, path, NULL, &err));
    CHECK_OK(st_writer_finish(writer, &err));
    st_writer_free(writer);
    memset(value, 'v', sizeof value - 1);
    options.flags = sync ? ST_WRITE_SYNC : 0;
    options.data_alignment = 4096;
    options.header_reserve = 8000;
    syncs = 0;
    CHECK_OK(st_edit_metadata(path, &key, &short_value, 1, &options, &err));
    CHECK((syncs > 0) == sync);
    CHECK_OK(st_open(path, NULL, &file, &err));
    CHECK(st_tensor_offset(st_get_tensor(file, "a")) % 4096 == 0);
    st_free(file);
    /* The change fits in the reserve, so it is made in place. With a sync it must be inside one sector, and is not. */
    const ino_t before = inode_of(path);
    syncs = 0;
    CHECK_OK(st_edit_metadata(path, &key, &long_value, 1, &options, &err));
    CHECK((syncs > 0) == sync);
    CHECK((inode_of(path) == before) == (ST_LINUX_IO && !sync)); /* other systems have no locks for it */
    options = ST_INIT(st_write_options);
    options.flags = sync ? ST_WRITE_SYNC : 0;
    syncs = 0;
    CHECK_OK(st_tensor_write(path, "a", "y", 1, &options, &err));
    CHECK((syncs > 0) == sync);
  }
}

static void test_empty_map_is_not_none(const char *path) {
  st_file *file = NULL, *without_map = NULL;
  size_t len = 0;
  CHECK_OK(st_open_memory("\2\0\0\0\0\0\0\0{}", 10, NULL, NULL, NULL, &without_map, &err));
  for (int with_map = 0; with_map < 3; ++with_map) {
    st_writer *writer = NULL;
    CHECK_OK(st_writer_new(&writer, &err));
    if (with_map == 0) CHECK_OK(st_writer_copy_metadata(writer, without_map, &err));
    if (with_map == 1) CHECK_OK(st_writer_set_metadata(writer, NULL, NULL, &err));
    if (with_map == 2) CHECK_OK(st_writer_set_metadata_n(writer, NULL, 0, NULL, 0, &err)); /* wrote an empty key */
    CHECK(st_writer_set_metadata_n(writer, NULL, 1, "", 0, NULL) == ST_ERR_ARGUMENT);
    CHECK_OK(st_writer_begin(writer, path, NULL, &err));
    CHECK_OK(st_writer_finish(writer, &err));
    st_writer_free(writer);
    CHECK_OK(st_open(path, NULL, &file, &err));
    CHECK(strncmp(st_get_header(file, 0, &len), with_map ? "{\"__metadata__\":{}}" : "{}", with_map ? 19 : 2) == 0);
    st_free(file);
  }
  st_free(without_map);
}

int main(void) {
  char folder[64], a[128], b[128];
  snprintf(folder, sizeof folder, "%s/writer-XXXXXX", P_tmpdir);
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(a, sizeof a, "%s/a.safetensors", folder);
  snprintf(b, sizeof b, "%s/b.safetensors", folder);
  test_whole_and_pieces(a);
  test_copy_and_rename(a, b);
  test_refused(a);
  test_abandoned(a);
  test_edit(a);
  test_edit_of_bintensors(b);
  test_edit_options(b);
  test_empty_map_is_not_none(b);
  test_flags(b);
  test_alignments(b);
  test_targets(a, b);
  unlink(a);
  unlink(b);
  CHECK(rmdir(folder) == 0);
  return test_result();
}
