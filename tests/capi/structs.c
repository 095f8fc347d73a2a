/* The growth rule of public structs: programs compiled with an older or a newer header keep working. A program that uses
 * a member or flag unknown to this library gets an error.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "folder.h"
#include "system.h"
#include "test.h"

#include <stddef.h>

static test_bytes kFile;

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  (void)ctx;
  memcpy(dst, kFile.data + offset, n);
  return 0;
}

static void *allocate(void *ctx, size_t size, size_t align) {
  (void)ctx;
  (void)align;
  return malloc(size);
}

static void release(void *ctx, void *ptr, size_t size, size_t align) {
  (void)ctx;
  (void)size;
  (void)align;
  free(ptr);
}

/* Each opens kFile with the struct at `given`, and leaves everything else as it is by default. */
static st_status open_with_options(const void *given, st_error *err) {
  st_file *out = NULL;
  const st_status status = st_open_memory(kFile.data, kFile.size, NULL, NULL, given, &out, err);
  CHECK((status == ST_OK) == (out != NULL));
  st_free(out);
  return status;
}

static st_status open_with_source(const void *given, st_error *err) {
  st_file *out = NULL;
  const st_status status = st_open_source(given, NULL, &out, err);
  CHECK((status == ST_OK) == (out != NULL));
  st_free(out);
  return status;
}

static st_status open_with_allocator(const void *given, st_error *err) {
  st_open_options options = ST_INIT(st_open_options);
  options.allocator = given;
  return open_with_options(&options, err);
}

static st_status write_with_options(const void *given, st_error *err) {
  st_writer *writer = NULL;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  unlink("written"); /* for ST_WRITE_NO_REPLACE */
  const st_status status = st_writer_begin(writer, "written", given, err);
  if (status == ST_OK) CHECK(st_writer_finish(writer, NULL) == ST_OK);
  st_writer_free(writer);
  return status;
}

typedef struct kind {
  const char *name;
  size_t size;
  size_t align;
  size_t last; /* where its last member in 0.1 ended */
  size_t flags;
  st_status (*open)(const void *given, st_error *err);
} kind;

static const kind kKinds[] = {
    {"st_open_options", sizeof(st_open_options), _Alignof(st_open_options),
     offsetof(st_open_options, allocator) + sizeof(void *), offsetof(st_open_options, flags), open_with_options},
    {"st_source", sizeof(st_source), _Alignof(st_source), offsetof(st_source, close) + sizeof(void *),
     offsetof(st_source, flags), open_with_source},
    {"st_allocator", sizeof(st_allocator), _Alignof(st_allocator), offsetof(st_allocator, free) + sizeof(void *),
     offsetof(st_allocator, flags), open_with_allocator},
    {"st_write_options", sizeof(st_write_options), _Alignof(st_write_options),
     offsetof(st_write_options, header_reserve) + sizeof(uint64_t), offsetof(st_write_options, flags),
     write_with_options},
};

enum { LONGEST = 1024, ROOM = LONGEST + 8 }; /* no version of a struct is longer */

static size_t first_size(const kind *which) { return (which->last + which->align - 1) / which->align * which->align; }

/* The struct as its own header would make it, `size` bytes long, followed by bytes that are not its own. */
static void make(const kind *which, uint32_t size, unsigned char *room, unsigned char beyond) {
  st_open_options options = ST_INIT(st_open_options);
  st_source source = ST_INIT(st_source);
  st_allocator allocator = ST_INIT(st_allocator);
  st_write_options write = ST_INIT(st_write_options);
  const void *from = &options;
  source.size = kFile.size;
  source.read_at = read_at;
  allocator.alloc = allocate;
  allocator.free = release;
  if (which->open == open_with_source) from = &source;
  if (which->open == open_with_allocator) from = &allocator;
  if (which->open == write_with_options) from = &write;
  memset(room, 0, ROOM);
  memcpy(room, from, which->size);
  memset(room + size, beyond, ROOM - size);
  memcpy(room, &size, sizeof size);
}

static void shorter_structs_are_extended_with_zeros(const kind *which) {
  unsigned char room[ROOM];
  size_t size;
  for (size = first_size(which); size <= which->size; size += which->align) {
    make(which, (uint32_t)size, room, 0xEE); /* memory after it must not be read */
    CHECK_FOR(which->name, which->open(room, NULL) == ST_OK);
  }
}

/* The struct is the last thing before memory that must not be touched: a size that was never set, or set by halves, leads
 * there. Some are shorter than the first version, some end inside a field, some are longer than any version will be. */
static void a_size_that_no_version_has_is_refused_before_anything_is_read(const kind *which) {
  const uint32_t sizes[] = {0,
                            1,
                            3,
                            4,
                            8,
                            16,
                            (uint32_t)first_size(which) - 4,
                            (uint32_t)first_size(which) - 1,
                            (uint32_t)which->size + 1,
                            1032,
                            0x10000,
                            0x7FFFFFF8,
                            UINT32_MAX};
  size_t page;
  unsigned char *const pages = test_guarded_pages(&page);
  unsigned char *const given = pages + page - which->size;
  unsigned char room[ROOM];
  size_t i;
  make(which, (uint32_t)which->size, room, 0);
  memcpy(given, room, which->size);
  CHECK_FOR(which->name, which->open(given, NULL) == ST_OK);
  for (i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    st_error err = ST_INIT(st_error);
    char expected[60];
    memcpy(given, &sizes[i], sizeof sizes[i]);
    snprintf(expected, sizeof expected, "%s.struct_size is %u", which->name, (unsigned)sizes[i]);
    CHECK_FOR(expected, which->open(given, &err) == ST_ERR_STRUCT_SIZE && err.offset == UINT64_MAX);
    CHECK_FOR(err.message, strstr(err.message, expected) != NULL);
  }
  test_free_pages(pages);
}

static void longer_structs_are_taken_when_they_ask_for_nothing_new(const kind *which) {
  unsigned char room[ROOM];
  size_t at;
  make(which, (uint32_t)which->size, room, 0);
  const uint32_t longer = LONGEST;
  memcpy(room, &longer, sizeof longer);
  CHECK_FOR(which->name, which->open(room, NULL) == ST_OK);
  for (at = which->size; at < longer; ++at) {
    st_error err = ST_INIT(st_error);
    room[at] = 1;
    CHECK_FOR(which->name, which->open(room, &err) == ST_ERR_STRUCT_SIZE && err.status == ST_ERR_STRUCT_SIZE);
    room[at] = 0;
  }
  room[longer] = 1; /* behind its end: not its own */
  CHECK_FOR(which->name, which->open(room, NULL) == ST_OK);
}

static void unknown_flags_are_refused(const kind *which) {
  const uint32_t of_open = ST_OPEN_STRICT | ST_OPEN_REFERENCE | ST_OPEN_UNKNOWN_DTYPES | ST_OPEN_FOLLOW_LINKS;
  const uint32_t of_write =
      ST_WRITE_SYNC | ST_WRITE_KEEP_ORDER | ST_WRITE_NO_REPLACE | ST_WRITE_REPLACE_LINK | ST_WRITE_ONLY_UNCHANGED;
  const uint32_t known = which->open == open_with_options    ? of_open
                         : which->open == open_with_source   ? ST_SOURCE_SERIAL
                         : which->open == write_with_options ? of_write
                                                             : 0;
  unsigned char room[ROOM];
  unsigned bit;
  for (bit = 0; bit < 32; ++bit) {
    const uint32_t flags = (uint32_t)1 << bit;
    st_error err = ST_INIT(st_error);
    make(which, (uint32_t)which->size, room, 0);
    memcpy(room + which->flags, &flags, sizeof flags);
    CHECK_FOR(which->name, which->open(room, &err) == ((known & flags) != 0 ? ST_OK : ST_ERR_UNSUPPORTED));
    if ((known & flags) != 0) continue;
    char expected[40];
    snprintf(expected, sizeof expected, "unknown bits 0x%x", (unsigned)flags);
    const uint32_t all = flags | known;
    memcpy(room + which->flags, &all, sizeof all);
    CHECK_FOR(which->name, which->open(room, &err) == ST_ERR_UNSUPPORTED);
    CHECK_FOR(err.message, strstr(err.message, expected) != NULL &&
                               err.message[strlen(err.message) - 1] == expected[strlen(expected) - 1]);
  }
}

static void modes_that_do_not_exist_are_refused(void) {
  static const st_io kWrong[] = {-1, 4, 100, INT32_MAX, INT32_MIN};
  size_t i;
  for (i = 0; i < sizeof kWrong / sizeof kWrong[0]; ++i) {
    st_open_options options = ST_INIT(st_open_options);
    options.io = kWrong[i];
    CHECK(open_with_options(&options, NULL) == ST_ERR_UNSUPPORTED);
  }
}

static void rules_that_exclude_each_other(void) {
  st_open_options options = ST_INIT(st_open_options);
  options.flags = ST_OPEN_STRICT | ST_OPEN_REFERENCE;
  CHECK(open_with_options(&options, NULL) == ST_ERR_ARGUMENT);
}

static void an_allocator_is_whole_or_none(void) {
  st_allocator allocator = ST_INIT(st_allocator);
  CHECK(open_with_allocator(&allocator, NULL) == ST_ERR_ARGUMENT);
  allocator.alloc = allocate;
  CHECK(open_with_allocator(&allocator, NULL) == ST_ERR_ARGUMENT);
  allocator.free = release;
  CHECK(open_with_allocator(&allocator, NULL) == ST_OK);
}

/* ---- st_error goes the other way: the library writes as much of it as the caller has ------------------------------- */

static st_status fail_into(void *room) {
  st_file *out = NULL;
  static const char kBad[] = "\x08\0\0\0\0\0\0\0{\"a\":1}x";
  return st_open_memory(kBad, sizeof kBad - 1, NULL, NULL, NULL, &out, room);
}

static void an_error_of_any_size_is_filled_to_its_end(void) {
  unsigned char room[2 * sizeof(st_error)];
  uint32_t size;
  st_error full = ST_INIT(st_error);
  CHECK(fail_into(&full) == ST_ERR_SCHEMA || full.status == ST_ERR_JSON);
  for (size = sizeof(uint32_t); size <= sizeof room; ++size) {
    const size_t own = size < sizeof full ? size : sizeof full;
    size_t i;
    memset(room, 0xEE, sizeof room);
    memcpy(room, &size, sizeof size);
    CHECK(fail_into(room) == full.status);
    CHECK(memcmp(room, &size, sizeof size) == 0);
    if (own >= offsetof(st_error, os_error)) CHECK(memcmp(room + 4, &full.status, 4) == 0);
    if (own >= offsetof(st_error, message)) CHECK(memcmp(room + 16, &full.offset, 8) == 0);
    if (own > offsetof(st_error, message)) {
      const char *message = (const char *)room + offsetof(st_error, message);
      const char *end = memchr(message, 0, own - offsetof(st_error, message));
      CHECK(end != NULL && strncmp(message, full.message, (size_t)(end - message)) == 0);
    }
    for (i = size; i < sizeof room; ++i) CHECK(room[i] == 0xEE);
  }
}

static void an_error_that_was_not_initialised_is_not_written_to(void) {
  unsigned char room[sizeof(st_error)];
  uint32_t size;
  size_t i;
  for (size = 1; size < sizeof(uint32_t); ++size) {
    memset(room, 0xEE, sizeof room);
    memcpy(room, &size, sizeof size);
    CHECK(fail_into(room) >= ST_ERR_JSON);
    for (i = sizeof size; i < sizeof room; ++i) CHECK(room[i] == 0xEE);
  }
}

static void an_error_that_is_all_zero_is_filled_to_its_first_size(void) {
  enum { FIRST = 256 };
  unsigned char room[2 * sizeof(st_error)];
  st_error full = ST_INIT(st_error);
  size_t i;
  CHECK(fail_into(&full) >= ST_ERR_JSON);
  memset(room, 0xEE, sizeof room);
  memset(room, 0, FIRST);
  CHECK(fail_into(room) == full.status);
  full.struct_size = 0;
  CHECK(memcmp(room, &full, FIRST) == 0);
  for (i = FIRST; i < sizeof room; ++i) CHECK(room[i] == 0xEE);
}

static void a_long_message_is_cut_between_characters(void) {
  char header[400] = "{\"";
  st_error err = ST_INIT(st_error);
  st_file *out = NULL;
  size_t i;
  for (i = 0; i < 100; ++i) strcat(header, "\xE2\x82\xAC"); /* a euro sign takes three bytes */
  strcat(header, "\":1}");
  test_bytes file = test_file(header, 0);
  CHECK(test_open(&file, NULL, &out, &err) == ST_ERR_SCHEMA);
  CHECK(strlen(err.message) < sizeof err.message && strstr(err.message, "\xE2\x82\xAC") != NULL);
  for (i = 0; err.message[i] != '\0'; ++i) {
    if ((unsigned char)err.message[i] != 0xE2) continue;
    CHECK((unsigned char)err.message[i + 1] == 0x82 && (unsigned char)err.message[i + 2] == 0xAC);
  }
  test_release(&file);
}

int main(void) {
  size_t i;
  test_enter_folder();
  kFile = test_file(TEST_TWO, 20);
  for (i = 0; i < sizeof kKinds / sizeof kKinds[0]; ++i) {
    shorter_structs_are_extended_with_zeros(&kKinds[i]);
    a_size_that_no_version_has_is_refused_before_anything_is_read(&kKinds[i]);
    longer_structs_are_taken_when_they_ask_for_nothing_new(&kKinds[i]);
    unknown_flags_are_refused(&kKinds[i]);
  }
  modes_that_do_not_exist_are_refused();
  rules_that_exclude_each_other();
  an_allocator_is_whole_or_none();
  an_error_of_any_size_is_filled_to_its_end();
  an_error_that_was_not_initialised_is_not_written_to();
  an_error_that_is_all_zero_is_filled_to_its_first_size();
  a_long_message_is_cut_between_characters();
  test_release(&kFile);
  test_leave_folder();
  return test_result();
}
