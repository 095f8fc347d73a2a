/* Progress of writing: the reports, and a cancelled writer, which leaves nothing behind.
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "test.h"

#include "folder.h"

enum { MIB = 1 << 20, GIVEN = 20 * MIB + 3, PUT = 9 * MIB, SMALL = 100 };

static unsigned char *data; /* as long as the largest tensor */
static st_error error;

typedef struct reports {
  int calls;
  int cancels_at; /* this call, counted from 1; 0: none */
  int falls;      /* whether a report was smaller than the one before it, or larger than the total */
  uint64_t done, total;
} reports;

static int32_t report(void *ctx, uint64_t done, uint64_t total) {
  reports *const own = ctx;
  if (done < own->done || done > total || (own->calls > 0 && total != own->total)) own->falls = 1;
  own->done = done;
  own->total = total;
  ++own->calls;
  return own->calls == own->cancels_at ? -7 : 0;
}

static st_write_options reporting_to(reports *own) {
  st_write_options options = ST_INIT(st_write_options);
  options.ctx = own;
  options.progress = report;
  return options;
}

enum { LARGE = 1, SMALL_ONES = 2, COPIED = 4, IN_PARTS = 8 };

static st_writer *declared(unsigned what, const st_file *source) {
  static const uint64_t kGiven[] = {GIVEN}, kSmall[] = {SMALL}, kPut[] = {PUT};
  st_writer *writer = NULL;
  char name[20];
  int i;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add(writer, "put", ST_U8, 1, kPut, what & IN_PARTS ? NULL : data, NULL, NULL) == ST_OK);
  if (what & LARGE) CHECK(st_writer_add(writer, "given", ST_U8, 1, kGiven, data, NULL, NULL) == ST_OK);
  for (i = 0; (what & SMALL_ONES) && i < 1000; ++i) {
    snprintf(name, sizeof name, "s%d", i);
    CHECK(st_writer_add(writer, name, ST_U8, 1, kSmall, data, NULL, NULL) == ST_OK);
  }
  if (what & COPIED) CHECK(st_writer_add_tensor(writer, "copy", 4, st_get_tensor(source, "given"), NULL) == ST_OK);
  return writer;
}

static st_status write_all(st_writer *writer, unsigned what, const char *path, const st_write_options *options) {
  st_status status = st_writer_begin(writer, path, options, &error);
  if (status == ST_OK && (what & IN_PARTS)) {
    status = st_writer_put(writer, 0, SMALL, data + SMALL, PUT - SMALL, &error);
    if (status == ST_OK) status = st_writer_put(writer, 0, 0, data, SMALL, &error);
  }
  return status == ST_OK ? st_writer_finish(writer, &error) : status;
}

static test_bytes contents(const char *path) {
  test_bytes bytes = {NULL, 0};
  struct stat status;
  FILE *const file = fopen(path, "rb");
  if (file == NULL || fstat(fileno(file), &status) != 0) return bytes;
  bytes.size = (size_t)status.st_size;
  bytes.data = test_alloc(bytes.size);
  CHECK(fread(bytes.data, 1, bytes.size, file) == bytes.size);
  fclose(file);
  return bytes;
}

static void reports_count_every_byte(unsigned what, const st_file *source) {
  reports own = {0, 0, 0, 0, 0};
  const st_write_options options = reporting_to(&own);
  st_writer *writer = declared(what, source);
  CHECK(write_all(writer, what, "silent", NULL) == ST_OK);
  st_writer_free(writer);
  writer = declared(what, source);
  CHECK(write_all(writer, what, "reported", &options) == ST_OK);
  st_writer_free(writer);
  test_bytes silent = contents("silent"), reported = contents("reported");
  CHECK(silent.size == reported.size && memcmp(silent.data, reported.data, silent.size) == 0);
  CHECK(own.calls >= 2 && own.falls == 0);
  CHECK(own.done == reported.size && own.total == reported.size);
  test_release(&silent);
  test_release(&reported);
}

static int entries(void) {
  int count = 0;
  DIR *const opened = opendir(".");
  while (readdir(opened) != NULL) ++count;
  closedir(opened);
  return count;
}

/* The first report follows the first bytes. The second comes at the latest when the file is in place. */
static void a_cancelled_writer_leaves_nothing(unsigned what, const st_file *source, const char *target) {
  reports own = {0, 1, 0, 0, 0};
  const st_write_options options = reporting_to(&own);
  test_bytes before = contents(target);
  const int there = entries();
  st_writer *const writer = declared(what, source);
  char expected[80];
  CHECK(write_all(writer, what, target, &options) == ST_ERR_CANCELLED);
  CHECK(own.calls == 1 && own.done < own.total);
  snprintf(expected, sizeof expected, "cancelled after %" PRIu64 " of %" PRIu64 " bytes", own.done, own.total);
  CHECK_FOR(error.message, error.status == ST_ERR_CANCELLED && strcmp(error.message, expected) == 0);
  CHECK(st_writer_put(writer, 0, 0, data, 1, &error) == ST_ERR_CANCELLED && strcmp(error.message, expected) == 0);
  CHECK(st_writer_finish(writer, &error) == ST_ERR_CANCELLED && strcmp(error.message, expected) == 0);
  CHECK(own.calls == 1);
  st_writer_free(writer);
  CHECK(entries() == there);
  test_bytes after = contents(target);
  CHECK(after.size == before.size && (after.data == NULL) == (before.data == NULL));
  CHECK(after.data == NULL || memcmp(after.data, before.data, before.size) == 0);
  if (before.data != NULL) test_release(&before);
  if (after.data != NULL) test_release(&after);
}

/* A small file is in place before the second report, so it cannot be cancelled. */
static void the_last_report_cancels_nothing(void) {
  reports own = {0, 2, 0, 0, 0};
  const st_write_options options = reporting_to(&own);
  const uint64_t shape[] = {SMALL};
  st_writer *writer = NULL;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add(writer, "t", ST_U8, 1, shape, data, NULL, NULL) == ST_OK);
  CHECK(st_writer_begin(writer, "small", &options, NULL) == ST_OK && own.calls == 0);
  CHECK(st_writer_finish(writer, NULL) == ST_OK && own.calls == 2);
  st_writer_free(writer);
  test_bytes written = contents("small");
  CHECK(own.done == written.size && own.total == written.size);
  test_release(&written);
}

static void a_file_without_data_is_reported_once(void) {
  reports own = {0, 1, 0, 0, 0};
  const st_write_options options = reporting_to(&own);
  st_writer *writer = NULL;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_begin(writer, "empty", &options, NULL) == ST_OK);
  CHECK(st_writer_finish(writer, NULL) == ST_OK && own.calls == 1 && own.done == own.total && own.total >= 10);
  st_writer_free(writer);
}

static void an_edit_reports_nothing(void) {
  reports own = {0, 1, 0, 0, 0};
  const st_write_options options = reporting_to(&own);
  const char *const key = "note", *const value = "hello";
  CHECK(st_edit_metadata("small", &key, &value, 1, &options, NULL) == ST_OK && own.calls == 0);
  CHECK(st_tensor_write("small", "t", data, SMALL, &options, NULL) == ST_OK && own.calls == 0);
}

int main(void) {
  static const unsigned kWhat[] = {LARGE, IN_PARTS, COPIED, LARGE | SMALL_ONES | COPIED | IN_PARTS};
  const st_open_options reading = test_mode(ST_IO_READ);
  const st_error fresh = ST_INIT(st_error);
  st_file *source = NULL;
  st_writer *writer;
  size_t i;
  error = fresh;
  test_enter_folder();
  data = test_alloc(GIVEN);
  for (i = 0; i < GIVEN; ++i) data[i] = (unsigned char)(i * 7 + i / 251);
  writer = declared(LARGE, NULL);
  CHECK(write_all(writer, LARGE, "source", NULL) == ST_OK);
  st_writer_free(writer);
  CHECK(st_open("source", &reading, &source, NULL) == ST_OK);
  for (i = 0; i < sizeof kWhat / sizeof kWhat[0]; ++i) {
    reports_count_every_byte(kWhat[i], source);
    a_cancelled_writer_leaves_nothing(kWhat[i], source, "absent");
    a_cancelled_writer_leaves_nothing(kWhat[i], source, "reported");
  }
  the_last_report_cancels_nothing();
  a_file_without_data_is_reported_once();
  an_edit_reports_nothing();
  st_free(source);
  free(data);
  test_leave_folder();
  return test_result();
}
