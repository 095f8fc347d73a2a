/* With the caller's allocator, all memory that a file keeps comes from it and is returned to it. Each failing allocation
 * ends in ST_ERR_NO_MEMORY without a leak.
 * SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

typedef struct ledger {
  size_t bytes; /* now */
  size_t peak;
  int blocks; /* now */
  int calls;
  int fails_at;        /* this call fails; 0: none */
  int from_there;      /* and all after it */
  const st_file *asks; /* during the next call, another one asks for the raw header of this file */
} ledger;

typedef struct block {
  size_t size;
  size_t align;
} block;

enum { FRONT = 64 }; /* for a block's record; keeps the alignment of the block */

static void *allocate(void *ctx, size_t size, size_t align) {
  ledger *book = ctx;
  if (book->asks != NULL) {
    const st_file *const file = book->asks;
    size_t len = 0;
    book->asks = NULL;
    CHECK(st_get_header(file, 0, &len) != NULL);
  }
  ++book->calls;
  if (book->fails_at != 0 && (book->calls == book->fails_at || (book->from_there && book->calls > book->fails_at)))
    return NULL;
  CHECK(align != 0 && (align & (align - 1)) == 0 && align <= FRONT);
  unsigned char *memory = test_alloc(size + FRONT);
  block own;
  own.size = size;
  own.align = align;
  memset(memory, 0xEE, size + FRONT);
  memcpy(memory, &own, sizeof own);
  book->bytes += size;
  book->blocks += 1;
  if (book->bytes > book->peak) book->peak = book->bytes;
  return memory + FRONT;
}

static void release(void *ctx, void *ptr, size_t size, size_t align) {
  ledger *book = ctx;
  unsigned char *memory = (unsigned char *)ptr - FRONT;
  block own;
  memcpy(&own, memory, sizeof own);
  CHECK(own.size == size && own.align == align);
  book->bytes -= size;
  book->blocks -= 1;
  memset(memory, 0xDD, size + FRONT);
  free(memory);
}

static st_allocator allocator_of(ledger *book) {
  st_allocator allocator = ST_INIT(st_allocator);
  allocator.ctx = book;
  allocator.alloc = allocate;
  allocator.free = release;
  return allocator;
}

typedef struct sample {
  const char *name;
  test_bytes file;
  st_status status;
  uint32_t flags;
} sample;

/* Escapes, long shapes, unknown dtypes, many names: everything that might need its own memory. */
static test_bytes many_tensors(size_t count, const char *prefix) {
  char *header = test_alloc(count * 120 + 400);
  size_t at = 0, i;
  at += (size_t)sprintf(header,
                        "{\"__metadata__\":{\"k\":\"v\",\"e\\n\":\"\\u00e9\"},\"deep\":{\"dtype\":\"U8\",\"shape\":[0");
  for (i = 0; i < 40; ++i) at += (size_t)sprintf(header + at, ",1");
  at += (size_t)sprintf(header + at, "],\"data_offsets\":[0,0]}");
  for (i = 0; i < count; ++i) {
    at += (size_t)sprintf(header + at, ",\"%s%u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}", prefix,
                          (unsigned)i, (unsigned)i, (unsigned)i + 1);
  }
  strcpy(header + at, "}");
  test_bytes file = test_file(header, count);
  free(header);
  return file;
}

static st_status open_sample(const sample *given, ledger *book, st_file **out, st_error *err) {
  const st_allocator allocator = allocator_of(book);
  st_open_options options = ST_INIT(st_open_options);
  options.allocator = &allocator; /* on the stack, because it is copied */
  options.flags = given->flags;
  return test_open(&given->file, &options, out, err);
}

static void everything_comes_from_it_and_goes_back(const sample *given) {
  ledger book;
  st_file *out = NULL;
  memset(&book, 0, sizeof book);
  CHECK_FOR(given->name, open_sample(given, &book, &out, NULL) == given->status);
  if (out != NULL) {
    size_t len = 0;
    CHECK_FOR(given->name, book.bytes > 0 && book.calls > 0);
    const int calls = book.calls;
    CHECK_FOR(given->name, st_get_tensor(out, "deep") != NULL && st_get_tensor(out, "absent") == NULL);
    CHECK_FOR(given->name, book.calls == calls); /* finding takes no memory */
    const char *header = st_get_header(out, 0, &len);
    CHECK_FOR(given->name, header != NULL && memcmp(header, given->file.data + 8, len) == 0);
    st_free(out);
  }
  CHECK_FOR(given->name, book.bytes == 0 && book.blocks == 0);
}

static void each_allocation_fails(const sample *given, int from_there) {
  ledger book;
  int needed, i;
  st_file *out = NULL;
  memset(&book, 0, sizeof book);
  open_sample(given, &book, &out, NULL);
  st_free(out);
  needed = book.calls;
  CHECK_FOR(given->name, needed >= 1);
  for (i = 1; i <= needed; ++i) {
    st_error err = ST_INIT(st_error);
    out = NULL;
    memset(&book, 0, sizeof book);
    book.fails_at = i;
    book.from_there = from_there;
    CHECK_FOR(given->name, open_sample(given, &book, &out, &err) == ST_ERR_NO_MEMORY);
    CHECK_FOR(given->name, err.status == ST_ERR_NO_MEMORY && err.message[0] != '\0' && out == NULL);
    CHECK_FOR(given->name, book.bytes == 0 && book.blocks == 0);
  }
  printf("%s: %d allocations, each failed%s\n", given->name, needed, from_there ? " and all after it" : " once");
}

static void both_functions_are_needed(const sample *given) {
  ledger book;
  int without_alloc;
  memset(&book, 0, sizeof book);
  for (without_alloc = 0; without_alloc <= 1; ++without_alloc) {
    st_allocator allocator = allocator_of(&book);
    st_open_options options = ST_INIT(st_open_options);
    st_file *out = NULL;
    options.allocator = &allocator;
    if (without_alloc) {
      allocator.alloc = NULL;
    } else {
      allocator.free = NULL;
    }
    CHECK(test_open(&given->file, &options, &out, NULL) == ST_ERR_ARGUMENT && out == NULL);
  }
  CHECK(book.calls == 0);
}

/* The first call of st_get_header makes a copy, and can only report a failure as NULL. */
static void a_raw_header_without_memory_is_null(const sample *given) {
  ledger book;
  st_file *out = NULL;
  size_t len = 77;
  memset(&book, 0, sizeof book);
  CHECK(open_sample(given, &book, &out, NULL) == ST_OK);
  book.fails_at = book.calls + 1;
  const char *header = st_get_header(out, 0, &len);
  if (book.calls == book.fails_at) CHECK(header == NULL && len == 77);
  header = st_get_header(out, 0, &len); /* memory is back */
  CHECK(header != NULL && memcmp(header, given->file.data + 8, len) == 0);
  st_free(out);
  CHECK(book.bytes == 0);
}

/* If two threads make the copy at the same time, the later one frees its copy. */
static void a_raw_header_is_made_twice_and_kept_once(const sample *given) {
  ledger book;
  st_file *out = NULL;
  size_t len = 0;
  memset(&book, 0, sizeof book);
  CHECK(open_sample(given, &book, &out, NULL) == ST_OK);
  const int blocks = book.blocks;
  book.asks = out;
  const char *const header = st_get_header(out, 0, &len);
  CHECK(header != NULL && book.asks == NULL && memcmp(header, given->file.data + 8, len) == 0);
  CHECK(book.blocks == blocks + 1 && st_get_header(out, 0, &len) == header);
  st_free(out);
  CHECK(book.bytes == 0);
}

static void memory_is_in_proportion(const sample *given) {
  ledger book;
  st_file *out = NULL;
  memset(&book, 0, sizeof book);
  CHECK(open_sample(given, &book, &out, NULL) == ST_OK);
  const size_t header = (size_t)st_tensor_offset(st_get_tensor_at(out, 0)) - 8;
  const size_t tensors = st_count_tensors(out);
  printf("%u tensors: peak of %u bytes, header %u, %.1f a tensor beyond it\n", (unsigned)tensors, (unsigned)book.peak,
         (unsigned)header, ((double)book.peak - (double)header) / (double)tensors);
  CHECK(book.peak <= header + tensors * 100);
  st_free(out);
}

int main(void) {
  sample samples[] = {
      {"a few tensors", many_tensors(3, "t"), ST_OK, 0},
      {"two thousand names with escapes", many_tensors(2000, "\\u0074\\\""), ST_OK, 0},
      {"ten thousand tensors", many_tensors(10000, "h.attn.weight."), ST_OK, 0},
      {"refused at the end", many_tensors(200, "t"), ST_ERR_COVERAGE, 0},
      {"read by the reference's rules", many_tensors(50, "t"), ST_OK, ST_OPEN_REFERENCE},
  };
  const size_t count = sizeof samples / sizeof samples[0];
  size_t i;
  samples[3].file.size -= 1;
  for (i = 0; i < count; ++i) {
    everything_comes_from_it_and_goes_back(&samples[i]);
    each_allocation_fails(&samples[i], 0);
    each_allocation_fails(&samples[i], 1);
  }
  both_functions_are_needed(&samples[0]);
  a_raw_header_is_made_twice_and_kept_once(&samples[0]);
  a_raw_header_without_memory_is_null(&samples[0]);
  memory_is_in_proportion(&samples[2]);
  for (i = 0; i < count; ++i) test_release(&samples[i].file);
  return test_result();
}
