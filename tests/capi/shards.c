/* A model of two shards through the public functions: each getter, the end of each list, and each option of st_open.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "folder.h"

static const char kIndex[] = "m.safetensors.index.json";
static const char kFirst[] = "m-00001-of-00002.safetensors";
static const char kSecond[] = "m-00002-of-00002.safetensors";

#define ENTRY(name, dtype, begin, end) \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[4],\"data_offsets\":[" begin "," end "]}"

static void save_index(const char *metadata, const char *map) {
  char text[1000];
  snprintf(text, sizeof text, "{%s\"weight_map\":{%s}}", metadata, map);
  test_save(kIndex, text, strlen(text));
}

static void save_shard(const char *path, const char *header, size_t bytes) {
  test_bytes file = test_file(header, bytes);
  test_save(path, file.data, file.size);
  test_release(&file);
}

static const char kFirstHeader[] =
    "{\"__metadata__\":{\"format\":\"pt\"}," ENTRY("a", "U8", "0", "4") "," ENTRY("b", "I8", "4", "8") "}";
static const char kSecondHeader[] = "{" ENTRY("c", "F32", "0", "16") "," ENTRY("d", "U8", "16", "20") "}";

static const char kAll[] =
    "\"a\":\"m-00001-of-00002.safetensors\",\"b\":\"m-00001-of-00002.safetensors\","
    "\"c\":\"m-00002-of-00002.safetensors\",\"d\":\"m-00002-of-00002.safetensors\"";
static const char kSome[] = "\"b\":\"m-00001-of-00002.safetensors\",\"c\":\"m-00002-of-00002.safetensors\"";

static st_file *opened(const char *path, const st_open_options *options) {
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  CHECK_FOR(err.message, st_open(path, options, &file, &err) == ST_OK);
  if (file == NULL) abort();
  return file;
}

static st_status status_of(const char *path, const st_open_options *options) {
  st_file *file = NULL;
  const st_status status = st_open(path, options, &file, NULL);
  st_free(file);
  return status;
}

static void each_getter(st_io io) {
  const st_open_options options = test_mode(io);
  size_t len = 0, value_len = 0;
  const char *value = NULL;
  unsigned char bytes[20];
  st_error err = ST_INIT(st_error);
  st_file *file = opened(kIndex, &options);
  CHECK(st_count_shards(file) == 2 && st_count_tensors(file) == 4);
  CHECK(st_get_tensor_at(file, 3) == st_get_tensor(file, "d") && st_get_tensor_at(file, 4) == NULL);
  CHECK(st_get_tensor_n(file, "cd", 1) == st_get_tensor_at(file, 2) && st_get_tensor(file, "cd") == NULL);
  CHECK(st_tensor_shard(st_get_tensor(file, "b")) == 0 && st_tensor_shard(st_get_tensor(file, "c")) == 1);
  CHECK(st_get_format(file) == ST_FORMAT_SAFETENSORS);
  CHECK(st_has_metadata(file) == 1 && st_count_metadata(file) == 2);
  CHECK(strcmp(st_get_metadata_at(file, 0, &len, &value, &value_len), "author") == 0 && len == 6);
  CHECK(strcmp(value, "x") == 0 && value_len == 1);
  CHECK(st_get_metadata_at(file, 2, NULL, NULL, NULL) == NULL);
  CHECK(strcmp(st_get_metadata(file, "format", &value_len), "pt") == 0 && value_len == 2);
  CHECK(strcmp(st_get_metadata_n(file, "formatted", 6, NULL), "pt") == 0);
  CHECK(st_get_metadata(file, "formatted", NULL) == NULL);
  CHECK(strstr(st_get_shard_path(file, 0), kFirst) != NULL && strstr(st_get_shard_path(file, 1), kSecond) != NULL);
  CHECK(st_get_shard_path(file, 2) == NULL);
  CHECK(strcmp(st_get_header(file, 0, &len), kFirstHeader) == 0 && len == strlen(kFirstHeader));
  CHECK(strcmp(st_get_header(file, 1, &len), kSecondHeader) == 0 && len == strlen(kSecondHeader));
  CHECK(st_get_header(file, 2, &len) == NULL);
  CHECK(st_get_shard_size(file, 0) == 8 + strlen(kFirstHeader) + 8);
  CHECK(st_get_shard_size(file, 1) == 8 + strlen(kSecondHeader) + 20 && st_get_shard_size(file, 2) == 0);
  CHECK(st_read_shard(file, 1, 8 + strlen(kSecondHeader), bytes, 20, NULL) == ST_OK && bytes[19] == 19);
  CHECK(st_read_shard(file, 2, 0, bytes, 1, NULL) == ST_ERR_RANGE);
  CHECK(st_check_unchanged(file, 2, &err) == ST_ERR_RANGE);
  CHECK_FOR(err.message, strcmp(err.message, "no shard 2: the checkpoint has 2") == 0);
  CHECK(st_tensor_read(st_get_tensor(file, "d"), bytes, 4, NULL) == ST_OK && bytes[0] == 16);
  CHECK(st_count_warnings(file) == 0 && st_get_warning(file, 0) == NULL);
  st_free(file);
}

/* One per shard, in the order of the shards, and NULL after the last. */
static void what_the_index_forgot_is_a_warning(void) {
  st_open_options strict = ST_INIT(st_open_options);
  st_file *file;
  strict.flags = ST_OPEN_STRICT;
  CHECK(status_of(kIndex, &strict) == ST_OK);
  save_index("", kSome);
  file = opened(kIndex, NULL);
  CHECK(st_count_warnings(file) == 2);
  CHECK(strstr(st_get_warning(file, 0), kFirst) != NULL && strstr(st_get_warning(file, 0), "'a'") != NULL);
  CHECK(strstr(st_get_warning(file, 1), kSecond) != NULL && strstr(st_get_warning(file, 1), "'d'") != NULL);
  CHECK(st_get_warning(file, 2) == NULL && st_get_warning(file, SIZE_MAX) == NULL);
  CHECK(st_count_metadata(file) == 1);
  st_free(file);
  CHECK(status_of(kIndex, &strict) == ST_ERR_SHARD);
}

static void a_link_out_of_the_folder_is_followed_when_asked(void) {
  st_open_options follow = ST_INIT(st_open_options);
  char outside[5000], target[5000];
  snprintf(outside, sizeof outside, "%s-outside", test_folder);
  snprintf(target, sizeof target, "%s/%s", test_folder, kSecond);
  CHECK(rename(kSecond, outside) == 0);
  if (test_link(outside, kSecond) != 0) {
    printf("no symbolic links can be made here\n");
    CHECK(rename(outside, target) == 0);
    return;
  }
  CHECK(status_of(kIndex, NULL) == ST_ERR_SHARD);
  follow.flags = ST_OPEN_FOLLOW_LINKS;
  CHECK(status_of(kIndex, &follow) == ST_OK);
  CHECK(unlink(kSecond) == 0 && rename(outside, target) == 0);
}

static void each_rule_is_that_of_its_flag(void) {
  static const struct {
    const char *header;
    st_status status[4]; /* default, strict, reference, unknown dtypes */
  } kCases[] = {
      {"{" ENTRY("a", "U8", "0", "4") "}", {ST_OK, ST_OK, ST_OK, ST_OK}},
      {" {" ENTRY("a", "U8", "0", "4") "}", {ST_OK, ST_ERR_SCHEMA, ST_OK, ST_OK}},
      {"{\"a\":[\"U8\",[4],[0,4]]}", {ST_ERR_SCHEMA, ST_ERR_SCHEMA, ST_OK, ST_ERR_SCHEMA}},
      {"{" ENTRY("a", "U9", "0", "4") "}", {ST_ERR_DTYPE, ST_ERR_DTYPE, ST_ERR_DTYPE, ST_OK}},
  };
  static const uint32_t kFlags[] = {0, ST_OPEN_STRICT, ST_OPEN_REFERENCE, ST_OPEN_UNKNOWN_DTYPES};
  size_t i, k;
  for (i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    save_shard("one", kCases[i].header, 4);
    for (k = 0; k < 4; ++k) {
      st_open_options options = ST_INIT(st_open_options);
      options.flags = kFlags[k];
      const st_status status = status_of("one", &options);
      CHECK_FOR(kCases[i].header, (status == ST_OK) == (kCases[i].status[k] == ST_OK));
      if (kCases[i].status[k] != ST_ERR_SCHEMA) CHECK_FOR(kCases[i].header, status == kCases[i].status[k]);
    }
  }
}

/* The length of a header, and of an index, up to the limit and one byte over it. */
static void the_limit_of_headers(void) {
  st_open_options options = ST_INIT(st_open_options);
  save_shard("one", kSecondHeader, 20);
  options.max_header_bytes = strlen(kSecondHeader);
  CHECK(status_of("one", &options) == ST_OK);
  --options.max_header_bytes;
  CHECK(status_of("one", &options) == ST_ERR_HEADER_SIZE);
  options.max_header_bytes = UINT64_MAX;
  CHECK(status_of("one", &options) == ST_OK);
}

static int allocations, releases;

static void *allocate(void *ctx, size_t size, size_t align) {
  (void)align;
  ++*(int *)ctx;
  return malloc(size);
}

static void release(void *ctx, void *ptr, size_t size, size_t align) {
  (void)ctx;
  (void)size;
  (void)align;
  ++releases;
  free(ptr);
}

static void the_allocator_is_the_callers(void) {
  st_open_options options = ST_INIT(st_open_options);
  st_allocator allocator = ST_INIT(st_allocator);
  allocator.ctx = &allocations;
  allocator.alloc = allocate;
  allocator.free = release;
  options.allocator = &allocator;
  options.threads = 1;
  CHECK(status_of("one", &options) == ST_OK);
  CHECK(allocations > 0 && allocations == releases);
}

int main(void) {
  st_io io;
  test_enter_folder();
  save_shard(kFirst, kFirstHeader, 8);
  save_shard(kSecond, kSecondHeader, 20);
  save_index("\"metadata\":{\"author\":\"x\"},", kAll);
  for (io = ST_IO_AUTO; io <= ST_IO_READ; ++io) each_getter(io);
  a_link_out_of_the_folder_is_followed_when_asked();
  what_the_index_forgot_is_a_warning();
  each_rule_is_that_of_its_flag();
  the_limit_of_headers();
  the_allocator_is_the_callers();
  test_leave_folder();
  return test_result();
}
