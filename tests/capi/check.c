/* st_check reports every error of files, indexes and shards. A file that st_open accepts has only notes.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "folder.h"
#include "test.h"

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"

static void save(const char *path, const char *header, size_t data) {
  char padded[512];
  test_bytes file;
  snprintf(padded, sizeof padded, "%s%*s", header, (int)((8 - strlen(header) % 8) % 8), "");
  file = test_file(padded, data);
  test_save(path, file.data, file.size);
  test_release(&file);
}

static void save_index(const char *text) { test_save("m.safetensors.index.json", text, strlen(text)); }

typedef struct expected {
  st_status status;
  uint32_t flags;
  const char *path;   /* how it ends */
  const char *tensor; /* NULL: none */
  const char *words;  /* in the message */
} expected;

static void report_is(const char *path, const st_open_options *options, const expected *rows, size_t count) {
  st_report *report = NULL;
  st_error err = ST_INIT(st_error);
  size_t i;
  const st_status status = st_check(path, options, &report, &err);
  CHECK_FOR(err.message, status == ST_OK);
  if (status != ST_OK) return;
  CHECK_FOR(path, st_count_findings(report) == count && st_get_finding(report, count) == NULL);
  for (i = 0; i < count && i < st_count_findings(report); ++i) {
    const st_finding *const found = st_get_finding(report, i);
    const size_t end = strlen(rows[i].path);
    CHECK_FOR(found->message, found->struct_size == sizeof *found);
    CHECK_FOR(found->message, found->status == rows[i].status && found->flags == rows[i].flags);
    CHECK_FOR(found->message, (found->os_error != 0) == (strstr(found->message, "is missing") != NULL));
    CHECK_FOR(found->path, found->path_len >= end && strcmp(found->path + found->path_len - end, rows[i].path) == 0);
    CHECK_FOR(found->message, (found->tensor != NULL) == (rows[i].tensor != NULL));
    CHECK_FOR(found->message, found->tensor != NULL || found->tensor_len == 0);
    if (found->tensor != NULL && rows[i].tensor != NULL) {
      CHECK_FOR(found->message,
                found->tensor_len == strlen(rows[i].tensor) && strcmp(found->tensor, rows[i].tensor) == 0);
    }
    CHECK_FOR(found->message,
              strstr(found->message, rows[i].words) != NULL && strlen(found->message) == found->message_len);
  }
  st_report_free(report);
}

static void of_one_file(void) {
  static const expected faults[] = {{ST_ERR_OFFSETS, 0, "bad.safetensors", "a", "leave a hole"},
                                    {ST_ERR_TENSOR_SIZE, 0, "bad.safetensors", "a", "needs 2 bytes"},
                                    {ST_ERR_COVERAGE, 0, "bad.safetensors", NULL, "3 more bytes"}};
  static const expected notes[] = {
      {ST_ERR_SCHEMA, ST_FINDING_NOTE, "odd.safetensors", NULL, "is formatted differently"},
      {ST_ERR_SCHEMA, ST_FINDING_NOTE, "odd.safetensors", NULL, "__metadata__"}};
  static const expected short_file[] = {{ST_ERR_TRUNCATED, 0, "short.safetensors", NULL, ""}};
  save("good.safetensors", ONE("a"), 2);
  report_is("good.safetensors", NULL, NULL, 0);
  save("bad.safetensors", "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,4]}}", 7);
  report_is("bad.safetensors", NULL, faults, 3);
  save("odd.safetensors", "{\"__metadata__\":null,\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
  report_is("odd.safetensors", NULL, notes, 2);
  test_save("short.safetensors", "\1\0\0", 3);
  report_is("short.safetensors", NULL, short_file, 1);
}

static void of_a_model(void) {
  static const expected faults[] = {
      {ST_ERR_SHARD, 0, "m.safetensors.index.json", NULL, "shard 'm-3.safetensors' is missing"},
      {ST_ERR_SHARD, 0, "m.safetensors.index.json", "b", "tensor 'b' is not in its shard 'm-1.safetensors'"},
      {ST_ERR_DUPLICATE, 0, "m.safetensors.index.json", "a", "tensor 'a' is listed twice"},
      {ST_ERR_SHARD, ST_FINDING_NOTE, "m-2.safetensors", "a", "is not listed in the index"},
      {ST_ERR_SHARD, 0, "m-2.safetensors", "a", "is in two shards"}};
  static const expected note[] = {{ST_ERR_SHARD, ST_FINDING_NOTE, "m.safetensors.index.json", NULL,
                                   "total_size is '9', but the tensors have 4 bytes"}};
  static const expected no_json[] = {{ST_ERR_JSON, 0, "m.safetensors.index.json", NULL, ""}};
  st_report *report = NULL;
  st_open_options strict = ST_INIT(st_open_options);
  strict.flags = ST_OPEN_STRICT;
  save("m-1.safetensors", ONE("a"), 2);
  save("m-2.safetensors", ONE("a"), 2);
  save_index(
      "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"a\":\"m-1.safetensors\","
      "\"c\":\"m-3.safetensors\",\"d\":\"m-2.safetensors\"}}");
  CHECK(st_check("m.safetensors.index.json", NULL, &report, NULL) == ST_OK && st_count_findings(report) == 6);
  st_report_free(report);
  save_index(
      "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"a\":\"m-1.safetensors\","
      "\"c\":\"m-3.safetensors\",\"x\":\"m-2.safetensors\"}}");
  save("m-2.safetensors",
       "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
       "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
       2);
  report_is("m.safetensors.index.json", NULL, faults, 5);
  save("m-2.safetensors", ONE("b"), 2);
  save_index("{\"metadata\":{\"total_size\":9},\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}");
  report_is("m.safetensors.index.json", NULL, note, 1);
  report_is("m.safetensors.index.json", &strict, note, 1);
  save_index("{\"weight_map\":{\"a\":}}");
  report_is("m.safetensors.index.json", NULL, no_json, 1);
}

/* The entries read before its error are not compared with shards that were not opened. */
static void of_an_index_with_a_fault_behind_its_entries(void) {
  static const expected twice[] = {{ST_ERR_DUPLICATE, 0, "m.safetensors.index.json", NULL, "weight_map occurs twice"}};
  save_index("{\"weight_map\":{\"a\":\"n-1.safetensors\",\"b\":\"n-2.safetensors\"},\"weight_map\":{}}");
  report_is("m.safetensors.index.json", NULL, twice, 1);
}

/* The sum is not checked if not all headers can be read. */
static void of_a_total_size_beside_a_faulty_shard(void) {
  static const expected fault[] = {{ST_ERR_TRUNCATED, 0, "s-2.safetensors", NULL, ""}};
  save("s-1.safetensors", ONE("a"), 2);
  test_save("s-2.safetensors", "\1\0\0", 3);
  save_index("{\"metadata\":{\"total_size\":4},\"weight_map\":{\"a\":\"s-1.safetensors\",\"b\":\"s-2.safetensors\"}}");
  report_is("m.safetensors.index.json", NULL, fault, 1);
}

/* Next to an invalid index, only files numbered as shards of its model are shards, not other invalid files. */
static void of_the_shards_beside_a_faulty_index(void) {
  static const expected faults[] = {{ST_ERR_JSON, 0, "n.safetensors.index.json", NULL, ""},
                                    {ST_ERR_TRUNCATED, 0, "n-00002-of-00002.safetensors", NULL, ""}};
  save("n-00001-of-00002.safetensors", ONE("a"), 2);
  test_save("n-00002-of-00002.safetensors", "\1\0\0", 3);
  test_save("n-notes.txt", "\1\0\0", 3);
  test_save("n.safetensors.index.json", "{", 1);
  report_is("n.safetensors.index.json", NULL, faults, 2);
}

/* Unlike shards, an index may be anywhere: the caller named it. */
static void of_an_index_behind_a_link(void) {
#if !defined(_WIN32)
  static const char index[] = "{\"weight_map\":{\"a\":\"l-1.safetensors\"}}";
  CHECK(mkdir("linked", 0700) == 0);
  save("linked/l-1.safetensors", ONE("a"), 2);
  test_save("elsewhere", index, strlen(index));
  CHECK(symlink("../elsewhere", "linked/l.safetensors.index.json") == 0);
  report_is("linked/l.safetensors.index.json", NULL, NULL, 0);
  CHECK(remove("linked/l-1.safetensors") == 0 && remove("linked/l.safetensors.index.json") == 0);
#endif
}

/* An error that the caller's flags do not accept, next to one that they accept. */
static void by_the_flags_of_opening(void) {
  static const expected end[] = {{ST_ERR_COVERAGE, 0, "x.safetensors", NULL, "1 more byte"}};
  st_open_options options = ST_INIT(st_open_options);
  options.flags = ST_OPEN_UNKNOWN_DTYPES;
  save("x.safetensors", "{\"a\":{\"dtype\":\"X8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 3);
  report_is("x.safetensors", &options, end, 1);
  options.flags = ST_OPEN_REFERENCE;
  save("x.safetensors", "{\"a\":[\"U8\",[2],[0,2]]}", 3);
  report_is("x.safetensors", &options, end, 1);
}

/* The last finding says so, and is about no tensor. */
static void of_more_than_is_told(void) {
  enum { MOST = 1000, ENTRY = 60 };
  char *const header = test_alloc((MOST + 10) * ENTRY);
  st_report *report = NULL;
  const st_finding *last;
  size_t at = 0, i;
  test_bytes file;
  for (i = 0; i < MOST + 5; ++i) {
    at += (size_t)sprintf(header + at, "%c\"t%04u\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]}",
                          i == 0 ? '{' : ',', (unsigned)i);
  }
  sprintf(header + at, "}");
  file = test_file(header, 1);
  test_save("x.safetensors", file.data, file.size);
  test_release(&file);
  CHECK(st_check("x.safetensors", NULL, &report, NULL) == ST_OK && st_count_findings(report) == MOST + 1);
  CHECK(st_get_finding(report, 0)->offset == 8 + strlen(header));
  last = st_get_finding(report, MOST);
  CHECK(strstr(last->message, "the rest is omitted") != NULL && last->tensor == NULL && last->tensor_len == 0);
  CHECK(last->offset == UINT64_MAX);
  st_report_free(report);
  free(header);
}

/* The smaller of the two limits. */
static void by_the_limit_of_an_index(void) {
  static const char kIndex[] =
      "{\"metadata\":{\"total_size\":2},                              \"weight_map\":{\"a\":\"good.safetensors\"}}";
  char words[64];
  const expected too_long[] = {{ST_ERR_HEADER_SIZE, 0, "m.safetensors.index.json", NULL, words}};
  st_open_options options = ST_INIT(st_open_options);
  snprintf(words, sizeof(words), "%u bytes long, above the limit of %u", (unsigned)strlen(kIndex),
           (unsigned)strlen(kIndex) - 1);
  save("good.safetensors", ONE("a"), 2);
  save_index(kIndex);
  options.max_header_bytes = strlen(kIndex);
  report_is("m.safetensors.index.json", &options, NULL, 0);
  --options.max_header_bytes;
  report_is("m.safetensors.index.json", &options, too_long, 1);
}

static void of_what_cannot_be_opened(void) {
  st_report *report = NULL;
  st_error err = ST_INIT(st_error);
  CHECK(st_check("absent", NULL, &report, &err) == ST_ERR_OPEN && report == NULL && err.os_error != 0);
  CHECK(st_check_n("good.safetensors\0", 17, NULL, &report, NULL) == ST_ERR_ARGUMENT && report == NULL);
  CHECK(st_check_n("good.safetensors..", 16, NULL, &report, NULL) == ST_OK && st_count_findings(report) == 0);
  st_report_free(report);
  report = NULL;
  CHECK(st_check(NULL, NULL, &report, NULL) == ST_ERR_ARGUMENT && st_check("x", NULL, NULL, NULL) == ST_ERR_ARGUMENT);
  st_report_free(NULL);
}

int main(void) {
  test_enter_folder();
  of_one_file();
  of_a_model();
  of_an_index_with_a_fault_behind_its_entries();
  of_a_total_size_beside_a_faulty_shard();
  of_the_shards_beside_a_faulty_index();
  of_an_index_behind_a_link();
  by_the_flags_of_opening();
  of_more_than_is_told();
  by_the_limit_of_an_index();
  of_what_cannot_be_opened();
  test_leave_folder();
  return test_result();
}
