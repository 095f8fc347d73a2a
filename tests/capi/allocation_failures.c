/* For every function that needs memory, each allocation and each mapping is made to fail: first alone, then with all later
 * ones. The call must fail or succeed without it, and leave no memory, mapping, descriptor or file behind. The call is
 * then repeated with memory, followed by the rest of the work. The result must be the same as without a failure.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "dlpack.h"
#include "failing_memory.h"
#include "folder.h"

#if !TEST_FAILING_MEMORY

int main(void) {
  printf("skipped: malloc cannot be replaced under a sanitizer or another C library\n");
  return 0;
}

#else

enum { ROWS = 600, COLUMNS = 4096, MATRIX = ROWS * COLUMNS, SHARDS = 3, MANY = 70, THREADS = 16 };

static st_file *model;          /* model.safetensors, mapped */
static st_file *unmapped;       /* the same with ST_IO_READ */
static test_bytes model_bytes;  /* and its bytes */
static unsigned char *received; /* MATRIX bytes to read into */
static st_error error;

/* The error of an act whose call succeeded without doing its work. */
enum { WRONG = -1 };

static st_status worked(int holds) { return holds ? ST_OK : WRONG; }

static int is_about_memory(st_status status) {
  return status == ST_ERR_NO_MEMORY || (status > 0 && error.os_error == ENOMEM);
}

/* Whether a call failed for lack of memory. After that, memory is available. */
static int found_no_memory(st_status status) {
  if (!is_about_memory(status)) return 0;
  memory_disarm();
  CHECK(error.status == status && error.message[0] != '\0');
  return 1;
}

/* Makes a call unless an earlier call failed. Repeats it if there was no memory. */
#define CALL(status, call)                          \
  do {                                              \
    if ((status) != ST_OK) break;                   \
    (status) = (call);                              \
    if (found_no_memory(status)) (status) = (call); \
  } while (0)

/* The result of the act: the listing or the bytes of a file. The same in each run. */
static uint64_t result;

static void add_to_result(const void *bytes, size_t n) {
  const unsigned char *const from = bytes;
  size_t i;
  for (i = 0; i < n; ++i) result = (result ^ from[i]) * UINT64_C(0x100000001b3);
}

static void add_listing(const st_file *file) {
  size_t i, len, value_len;
  const char *key, *value;
  for (i = 0; i < st_count_tensors(file); ++i) {
    const st_tensor *const tensor = st_get_tensor_at(file, i);
    const uint64_t numbers[] = {(uint64_t)st_tensor_dtype(tensor), st_tensor_offset(tensor), st_tensor_bytes(tensor),
                                st_tensor_shard(tensor)};
    const char *const name = st_tensor_name(tensor, &len);
    add_to_result(name, len + 1);
    add_to_result(numbers, sizeof numbers);
    add_to_result(st_tensor_shape(tensor), st_tensor_rank(tensor) * sizeof(uint64_t));
  }
  for (i = 0; i < st_count_metadata(file); ++i) {
    key = st_get_metadata_at(file, i, &len, &value, &value_len);
    add_to_result(key, len + 1);
    add_to_result(value, value_len + 1);
  }
}

static const unsigned char *matrix_bytes(void) {
  return model_bytes.data + st_tensor_offset(st_get_tensor(model, "matrix"));
}

/* ---- the files ------------------------------------------------------------------------------------------------------ */

static void make_model(void) {
  char header[400];
  snprintf(header, sizeof header,
           "{\"__metadata__\":{\"format\":\"pt\",\"e\\n\":\"\\u00e9\"},"
           "\"matrix\":{\"dtype\":\"U8\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
           "\"small\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%d,%d]}}",
           ROWS, COLUMNS, MATRIX, MATRIX, MATRIX + 8);
  model_bytes = test_file(header, MATRIX + 8);
  test_save("model.safetensors", model_bytes.data, model_bytes.size);
}

static void make_shards(const char *stem, int count) {
  char path[100];
  int i;
  snprintf(path, sizeof path, "%s.safetensors.index.json", stem);
  FILE *const index = fopen(path, "w");
  fprintf(index, "{\"metadata\":{\"total_size\":%d},\"weight_map\":{", 4 * count);
  for (i = 1; i <= count; ++i) {
    char header[200];
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"format\":\"pt\",\"shard\":\"%d\"},"
             "\"t.%d\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}",
             i, i);
    test_bytes shard = test_file(header, 4);
    snprintf(path, sizeof path, "%s-%05d-of-%05d.safetensors", stem, i, count);
    test_save(path, shard.data, shard.size);
    fprintf(index, "%s\"t.%d\":\"%s\"", i == 1 ? "" : ",", i, path);
    test_release(&shard);
  }
  fprintf(index, "}}");
  fclose(index);
}

/* ---- opening -------------------------------------------------------------------------------------------------------- */

static st_status open_path(const char *path, st_io io, uint32_t threads, size_t tensors) {
  st_open_options options = test_mode(io);
  st_file *out = NULL;
  options.threads = threads;
  st_status status = st_open(path, &options, &out, &error);
  if (status == ST_OK) status = worked(st_count_tensors(out) == tensors);
  if (status == ST_OK) add_listing(out);
  st_free(out);
  return status;
}

static st_status open_mapped(void) { return open_path("model.safetensors", ST_IO_MAP, 1, 2); }
static st_status open_copied(void) { return open_path("model.safetensors", ST_IO_COPY, 1, 2); }
static st_status open_automatic(void) { return open_path("model.safetensors", ST_IO_AUTO, 1, 2); }
static st_status open_reading(void) { return open_path("model.safetensors", ST_IO_READ, 1, 2); }
static st_status open_index(void) { return open_path("few.safetensors.index.json", ST_IO_AUTO, 1, SHARDS); }
static st_status open_index_on_threads(void) { return open_path("few.safetensors.index.json", ST_IO_READ, 3, SHARDS); }
static st_status open_many(void) { return open_path("many.safetensors.index.json", ST_IO_READ, 1, MANY); }
static st_status open_folder(void) {
  return open_path(".", ST_IO_AUTO, 1, 2); /* of three models it is model.safetensors */
}
static st_status open_absent(void) {
  const st_status status = open_path("absent.safetensors", ST_IO_AUTO, 1, 2);
  return status == ST_ERR_NO_MEMORY ? status : worked(status == ST_ERR_OPEN);
}
static st_status open_bad(void) {
  st_file *out = NULL;
  const st_status status = st_open_memory("\x02\0\0\0\0\0\0\0[]", 10, NULL, NULL, NULL, &out, &error);
  return status == ST_ERR_NO_MEMORY ? status : worked(status == ST_ERR_SCHEMA || status == ST_ERR_JSON);
}

static int released;
static void release(void *ctx) {
  (void)ctx;
  ++released;
}

static st_status open_memory(void) {
  st_file *out = NULL;
  released = 0;
  const st_status status = st_open_memory(model_bytes.data, model_bytes.size, release, NULL, NULL, &out, &error);
  if (status == ST_OK) add_listing(out);
  st_free(out);
  return released == 1 ? status : WRONG; /* even if opening fails */
}

static st_status open_descriptor(void) {
  st_file *out = NULL;
  const int fd = open("model.safetensors", O_RDONLY | O_CLOEXEC);
  const st_status status = st_open_fd(fd, 0, 0, NULL, &out, &error);
  if (status == ST_OK) add_listing(out);
  st_free(out);
  close(fd);
  return status;
}

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  (void)ctx;
  memcpy(dst, model_bytes.data + offset, n);
  return 0;
}

static uint32_t source_flags;

static st_status with_source(st_status (*use)(st_file *file)) {
  st_source source = ST_INIT(st_source);
  st_file *out = NULL;
  source.flags = source_flags;
  source.size = model_bytes.size;
  source.read_at = read_at;
  source.close = release;
  released = 0;
  st_status status = st_open_source(&source, NULL, &out, &error);
  if (status == ST_OK) add_listing(out);
  if (use != NULL) CALL(status, use(out));
  st_free(out);
  return released == 1 ? status : WRONG;
}

static st_status open_source(void) { return with_source(NULL); }
static st_status open_serial_source(void) {
  source_flags = ST_SOURCE_SERIAL;
  const st_status status = with_source(NULL);
  source_flags = 0;
  return status;
}

static st_status read_filling(void *ctx, uint64_t offset, void *dst, size_t n, st_error *err) {
  (void)err;
  return read_at(ctx, offset, dst, n);
}

static st_status open_stored(void *ctx, const char *name, st_source *out, st_error *err) {
  (void)ctx, (void)err;
  if (strcmp(name, "stored.safetensors") != 0) return ST_ERR_NOT_FOUND;
  out->size = model_bytes.size;
  out->read = read_filling;
  out->gap_bytes = 1;
  out->name = "a name that is too long to be kept without memory of its own";
  return ST_OK;
}

static st_status open_store_closed_by(void (*closes)(void *ctx)) {
  st_store store = ST_INIT(st_store);
  st_file *out = NULL;
  store.open = open_stored;
  store.close = closes;
  released = 0;
  const st_status status = st_open_store(&store, "stored.safetensors", NULL, &out, &error);
  if (status == ST_OK) add_listing(out);
  st_free(out);
  return released == (closes != NULL) ? status : WRONG;
}

static st_status open_store(void) { return open_store_closed_by(release); }
static st_status open_store_without_close(void) { return open_store_closed_by(NULL); }

static st_status open_path_n(void) {
  st_file *out = NULL;
  const st_status status = st_open_n("model.safetensors and more", 17, NULL, &out, &error);
  if (status == ST_OK) add_listing(out);
  st_free(out);
  return status;
}

static st_status header_of(void) {
  st_file *out = NULL;
  size_t len = 0;
  const st_status status = st_open_memory(model_bytes.data, model_bytes.size, NULL, NULL, NULL, &out, &error);
  if (status != ST_OK) return status;
  const char *header = st_get_header(out, 0, &len);
  if (header == NULL) {
    memory_disarm();
    header = st_get_header(out, 0, &len);
  }
  const int holds = header != NULL && memcmp(header, model_bytes.data + 8, len) == 0;
  st_free(out);
  return worked(holds);
}

/* ---- handing on ----------------------------------------------------------------------------------------------------- */

/* Its own file, which has no mapping yet. */
static st_status list_with(st_io io) {
  const st_open_options options = test_mode(io);
  st_tensor_list *list = NULL;
  st_file *file = NULL;
  st_status status = st_open("model.safetensors", &options, &file, &error);
  CALL(status, st_list_tensors(file, ST_LIST_DATA, &list, &error));
  if (status == ST_OK) status = worked(list->count == 2 && list->dims[1] == COLUMNS && list->sizes[0] == MATRIX);
  if (status == ST_OK) add_to_result(list->names, list->name_offsets[2]);
  if (status == ST_OK) add_to_result(list->offsets, 2 * sizeof(uint64_t));
  st_free(file);
  st_tensor_list_free(list);
  return status;
}

static st_status list_mapped(void) { return list_with(ST_IO_MAP); }
static st_status list_automatic(void) { return list_with(ST_IO_AUTO); }

static st_status export_with(const st_file *file, uint32_t flags) {
  versioned *made = NULL;
  const st_status status = st_tensor_to_dlpack(st_get_tensor(file, "matrix"), flags, &made, &error);
  if (status != ST_OK) return made == NULL ? status : WRONG;
  const int holds = made->tensor.strides[0] == COLUMNS && memcmp(made->tensor.data, matrix_bytes(), MATRIX) == 0;
  made->deleter(made);
  return worked(holds);
}

static st_status export_view(void) { return export_with(model, ST_DLPACK_NO_COPY); }
static st_status export_copy(void) { return export_with(unmapped, 0); }
static st_status export_legacy(void) {
  legacy *made = NULL;
  const st_status status = st_tensor_to_dlpack_legacy(st_get_tensor(model, "matrix"), 0, &made, &error);
  if (status != ST_OK) return made == NULL ? status : WRONG;
  const int holds = memcmp(made->tensor.data, matrix_bytes(), MATRIX) == 0;
  made->deleter(made);
  return worked(holds);
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

static st_status read_tensor(void) {
  const st_status status = st_tensor_read(st_get_tensor(unmapped, "matrix"), received, MATRIX, &error);
  return status != ST_OK ? status : worked(memcmp(received, matrix_bytes(), MATRIX) == 0);
}

static st_status read_wrong_size(void) {
  const st_status status = st_tensor_read(st_get_tensor(unmapped, "matrix"), received, 1, &error);
  return status == ST_ERR_NO_MEMORY ? status : worked(status == ST_ERR_BUFFER_SIZE);
}

static st_status read_shard(void) {
  const st_status status = st_read_shard(unmapped, 0, 8, received, 100, &error);
  return status != ST_OK ? status : worked(memcmp(received, model_bytes.data + 8, 100) == 0);
}

static const int64_t kBegin[] = {0, 100}, kEnd[] = {INT64_MAX, 300}, kBackwards[] = {-3, 1};
static const int64_t kFar[] = {200, 1};

static st_status slice(void) {
  uint64_t bytes = 0;
  const st_status status =
      st_tensor_slice(st_get_tensor(model, "matrix"), kBegin, kEnd, NULL, NULL, &bytes, NULL, &error);
  return status != ST_OK ? status : worked(bytes == ROWS * 200);
}

static int columns_arrived(const unsigned char *got) {
  size_t row;
  for (row = 0; row < ROWS; ++row) {
    if (memcmp(got + row * 200, matrix_bytes() + row * COLUMNS + 100, 200) != 0) return 0;
  }
  return 1;
}

static st_status read_columns(const st_file *file) {
  const st_status status =
      st_tensor_read_slice(st_get_tensor(file, "matrix"), kBegin, kEnd, NULL, received, (size_t)ROWS * 200, &error);
  return status != ST_OK ? status : worked(columns_arrived(received));
}

static st_status read_slice(void) { return read_columns(unmapped); }
static st_status read_slice_of_mapping(void) { return read_columns(model); }
static st_status read_slice_of_source(void) { return with_source((st_status(*)(st_file *))read_columns); }

static int32_t goes_on(void *ctx, uint64_t done, uint64_t total) {
  (void)ctx;
  return done > total;
}

static void run_in_turn(void *ctx, size_t n, void (*fn)(void *arg, size_t i), void *arg) {
  size_t i;
  (void)ctx;
  for (i = 0; i < n; ++i) fn(arg, i);
}

/* A whole tensor, columns, far apart and backwards rows. */
static st_status plan_with(const st_file *file, st_cache cache, uint32_t threads, int host) {
  const st_tensor *const matrix = st_get_tensor(file, "matrix");
  st_read_options options = ST_INIT(st_read_options);
  unsigned char *const columns = received + MATRIX, *const rows = columns + ROWS * 200, *const far = rows + MATRIX;
  st_plan *plan = NULL;
  options.cache = cache;
  options.threads = threads;
  options.progress = goes_on;
  options.chunk_bytes = 65536;
  if (host) options.parallel_for = run_in_turn;
  uint64_t total = 0;
  st_status status = ST_OK;
  CALL(status, st_plan_new(file, &plan, &error));
  CALL(status, st_plan_add(plan, matrix, NULL, NULL, NULL, received, MATRIX, &error));
  CALL(status, st_plan_add(plan, matrix, kBegin, kEnd, NULL, columns, ROWS * 200, &error));
  CALL(status, st_plan_add(plan, matrix, NULL, NULL, kBackwards, rows, MATRIX / 3, &error));
  CALL(status, st_plan_add(plan, matrix, NULL, NULL, kFar, far, 3 * COLUMNS, &error));
  memset(received, 0, MATRIX);
  CALL(status, st_plan_run(plan, &options, &error));
  if (status == ST_OK) {
    st_plan_progress(plan, NULL, &total);
    status = worked(total == MATRIX + ROWS * 200 + MATRIX / 3 + 3 * COLUMNS && st_plan_is_complete(plan, 3) &&
                    !st_plan_is_complete(plan, 4) && memcmp(received, matrix_bytes(), MATRIX) == 0 &&
                    columns_arrived(columns) && memcmp(rows, matrix_bytes() + (ROWS - 1) * COLUMNS, COLUMNS) == 0 &&
                    memcmp(far + COLUMNS, matrix_bytes() + 200 * COLUMNS, COLUMNS) == 0);
  }
  st_plan_free(plan);
  return status;
}

static st_status plan_automatic(void) { return plan_with(unmapped, ST_CACHE_AUTO, 1, 0); }
static st_status plan_through(void) { return plan_with(unmapped, ST_CACHE_THROUGH, 1, 0); }
static st_status plan_around(void) { return plan_with(unmapped, ST_CACHE_AROUND, 1, 0); }
static st_status plan_of_mapping(void) { return plan_with(model, ST_CACHE_AUTO, 1, 0); }
static st_status plan_on_threads(void) { return plan_with(unmapped, ST_CACHE_AUTO, 4, 0); }
static st_status plan_around_on_threads(void) { return plan_with(unmapped, ST_CACHE_AROUND, 4, 0); }
static st_status plan_on_host_threads(void) { return plan_with(unmapped, ST_CACHE_AROUND, 3, 1); }
static st_status plan_source_file(st_file *file) { return plan_with(file, ST_CACHE_AUTO, 1, 0); }
static st_status plan_of_source(void) { return with_source(plan_source_file); }

static st_status buffer(uint64_t size, uint32_t flags, uint32_t threads) {
  void *memory = NULL;
  const st_status status = st_buffer_new(size, flags, threads, &memory, &error);
  if (status == ST_OK) *(unsigned char *)memory = 1;
  st_buffer_free(memory);
  return status;
}

static st_status buffer_at_once(void) { return buffer(5000000, 0, 1); }
static st_status buffer_on_threads(void) { return buffer((uint64_t)65 << 20, 0, 4); }
static st_status buffer_lazy(void) { return buffer(5000000, ST_BUFFER_LAZY, 0); }

/* ---- writing: the target has the new content or is unchanged ------------------------------------------------------- */

static int target_is(const char *what) {
  const st_open_options options = test_mode(ST_IO_MAP);
  st_file *file = NULL;
  size_t len = 0;
  if (st_open("target.safetensors", &options, &file, NULL) != ST_OK) return 0;
  const char *const value = st_get_metadata(file, "which", &len);
  const int holds = value != NULL && len == strlen(what) && memcmp(value, what, len) == 0;
  st_free(file);
  return holds;
}

static void add_target(void) {
  struct stat status;
  FILE *const file = fopen("target.safetensors", "rb");
  CHECK(file != NULL && fstat(fileno(file), &status) == 0);
  unsigned char *const bytes = test_alloc((size_t)status.st_size);
  CHECK(fread(bytes, 1, (size_t)status.st_size, file) == (size_t)status.st_size);
  add_to_result(bytes, (size_t)status.st_size);
  free(bytes);
  fclose(file);
}

static void reset_target(void) {
  test_bytes file = test_file(
      "{\"__metadata__\":{\"which\":\"old\"},\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8);
  memory_disarm();
  test_save("target.safetensors", file.data, file.size);
  test_release(&file);
}

/* Whether a call after st_writer_begin failed. That ends the writer: later calls return the same error. */
static st_status ended(st_writer *writer, size_t index, st_status status) {
  const st_error first = error;
  if (!found_no_memory(status)) return status;
  if (st_writer_put(writer, index, 0, "x", 1, &error) != status) return WRONG;
  if (st_writer_finish(writer, &error) != status) return WRONG;
  return strcmp(error.message, first.message) == 0 ? status : WRONG;
}

/* A string of the caller, overwritten by the next one. */
static const char *brief(const char *text) {
  static char room[64];
  memset(room, '?', sizeof room);
  return text == NULL ? NULL : strcpy(room, text);
}

enum { LONG_NAME = 10000, DIMENSIONS = 5000 }; /* each needs memory of its own in the writer */

static const char *long_name(char of) {
  static char room[LONG_NAME + 1];
  return memset(room, of, LONG_NAME);
}

static const uint64_t *long_shape(uint64_t dimension) {
  static uint64_t room[DIMENSIONS];
  size_t i;
  for (i = 0; i < DIMENSIONS; ++i) room[i] = dimension;
  return room;
}

static st_status write_with(uint32_t flags, st_format format) {
  static const uint64_t kShape[] = {2, 3};
  static const unsigned char kData[24] = {1, 2, 3};
  st_write_options options = ST_INIT(st_write_options);
  st_writer *writer = NULL;
  size_t index = 0;
  st_status status = ST_OK;
  options.flags = flags;
  options.format = format;
  CALL(status, st_writer_new(&writer, &error));
  CALL(status, st_writer_copy_metadata(writer, model, &error));
  CALL(status, st_writer_set_metadata(writer, brief("which"), "new", &error));
  CALL(status, st_writer_set_metadata_n(writer, brief("a key that is longer than any buffer"), 36, "", 0, &error));
  CALL(status, st_writer_add(writer, brief("given"), ST_F32, 2, kShape, kData, NULL, &error));
  CALL(status, st_writer_add_n(writer, brief("put in pieces"), 13, ST_F32, 2, kShape, NULL, &index, &error));
  CALL(status, st_writer_add_tensor(writer, NULL, 0, st_get_tensor(model, "matrix"), &error));
  CALL(status, st_writer_add(writer, long_name('a'), ST_U8, DIMENSIONS, long_shape(1), kData, NULL, &error));
  CALL(status, st_writer_add_tensor(writer, long_name('b'), LONG_NAME, st_get_tensor(model, "small"), &error));
  brief(NULL);
  long_name('?');
  long_shape(7);
  CALL(status, st_writer_begin_n(writer, "target.safetensors", 18, &options, &error));
  if (status == ST_OK) status = ended(writer, index, st_writer_put(writer, index, 12, kData, 12, &error));
  if (status == ST_OK) status = ended(writer, index, st_writer_put(writer, index, 0, kData, 12, &error));
  if (status == ST_OK) status = ended(writer, index, st_writer_finish(writer, &error));
  st_writer_free(writer);
  memory_disarm();
  if (!target_is(status == ST_OK ? "new" : "old")) return WRONG;
  if (status == ST_OK) add_target();
  return status;
}

/* A copy that runs out of memory must set no pair. */
static st_status copy_metadata(void) {
  st_writer *writer = NULL;
  st_file *file = NULL;
  st_status status = ST_OK;
  CALL(status, st_writer_new(&writer, &error));
  CALL(status, st_writer_set_metadata(writer, "which", "new", &error));
  if (status == ST_OK) status = st_writer_copy_metadata(writer, model, &error);
  const int failed = found_no_memory(status);
  memory_disarm();
  if (failed) status = ST_OK;
  if (status == ST_OK) status = st_writer_begin(writer, "target.safetensors", NULL, &error);
  if (status == ST_OK) status = st_writer_finish(writer, &error);
  st_writer_free(writer);
  if (status == ST_OK) status = st_open("target.safetensors", NULL, &file, &error);
  if (status == ST_OK) status = worked(st_count_metadata(file) == (failed ? 1 : 3));
  st_free(file);
  return status;
}

static st_status write_whole(void) { return write_with(0, 0); }
static st_status write_synced(void) { return write_with(ST_WRITE_SYNC | ST_WRITE_KEEP_ORDER, 0); }
static st_status write_bintensors(void) { return write_with(0, ST_FORMAT_BINTENSORS); }

static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* A put that could not write ends the writer, even without memory to store the error. */
static st_status write_over_the_limit(void) {
  static const uint64_t kShape[] = {65536};
  static const unsigned char kData[65536] = {1};
  st_writer *writer = NULL;
  size_t index = 0;
  st_status put = ST_OK, finish = ST_OK, status = st_writer_new(&writer, &error);
  if (status == ST_OK) status = st_writer_add(writer, "t", ST_U8, 1, kShape, NULL, &index, &error);
  if (status == ST_OK) status = st_writer_begin(writer, "target.safetensors", NULL, &error);
  if (status == ST_OK) {
    limit_files(8192);
    status = put = st_writer_put(writer, index, 0, kData, sizeof kData, &error);
    limit_files(RLIM_INFINITY);
    finish = st_writer_finish(writer, NULL);
  }
  st_writer_free(writer);
  memory_disarm();
  if (!target_is("old") || (put != ST_OK && finish == ST_OK)) return WRONG;
  return put == ST_ERR_WRITE && error.os_error == EFBIG ? ST_OK : status;
}

/* A writer that has no memory for its buffers writes without them. */
static void write_without_buffers(void) {
  enum { GIVEN = 400000, PUT = 8000 };
  static const uint64_t kGiven[] = {GIVEN}, kPut[] = {PUT};
  const st_open_options mapped = test_mode(ST_IO_MAP);
  st_writer *writer = NULL;
  st_file *file = NULL;
  size_t index = 0;
  CHECK(st_writer_new(&writer, &error) == ST_OK);
  CHECK(st_writer_add(writer, "given", ST_U8, 1, kGiven, matrix_bytes(), NULL, &error) == ST_OK);
  CHECK(st_writer_add(writer, "put", ST_U8, 1, kPut, NULL, &index, &error) == ST_OK);
  CHECK(st_writer_begin(writer, "target.safetensors", NULL, &error) == ST_OK);
  memory_arm_large(PUT);
  CHECK(st_writer_put(writer, index, 0, matrix_bytes(), PUT, &error) == ST_OK);
  CHECK(memory_refusals > 0);
  memory_arm_large(GIVEN);
  CHECK(st_writer_finish(writer, &error) == ST_OK);
  CHECK(memory_refusals > 0);
  memory_disarm();
  st_writer_free(writer);
  CHECK(st_open("target.safetensors", &mapped, &file, &error) == ST_OK);
  CHECK(memcmp(st_tensor_data(st_get_tensor(file, "given")), matrix_bytes(), GIVEN) == 0);
  CHECK(memcmp(st_tensor_data(st_get_tensor(file, "put")), matrix_bytes(), PUT) == 0);
  st_free(file);
}

static st_status edit_to(const char *value, uint64_t reserve) {
  const char *const keys[] = {"which", "absent"}, *const values[] = {value, NULL};
  st_write_options options = ST_INIT(st_write_options);
  options.header_reserve = reserve;
  const size_t key_lens[] = {5, 6}, value_lens[] = {strlen(value), 0};
  const st_status status =
      st_edit_metadata_n("target.safetensors", 18, keys, key_lens, values, value_lens, 2, &options, &error);
  memory_disarm();
  if (!target_is(status == ST_OK ? value : "old")) return WRONG;
  if (status == ST_OK) add_target();
  return status;
}

static st_status edit_in_place(void) { return edit_to("new", 0); }
static st_status edit_in_a_new_file(void) { return edit_to("a value that needs a file with a longer header", 4096); }

static st_status write_tensor(void) {
  static const unsigned char kOld[8] = {0, 1, 2, 3, 4, 5, 6, 7}, kNew[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  unsigned char now[8] = {0};
  st_write_options options = ST_INIT(st_write_options);
  st_file *file = NULL;
  options.flags = ST_WRITE_SYNC;
  const st_status status = st_tensor_write_n("target.safetensors", 18, "t", 1, kNew, sizeof kNew, &options, &error);
  memory_disarm();
  if (st_open("target.safetensors", NULL, &file, NULL) != ST_OK) return WRONG;
  if (st_tensor_read(st_get_tensor(file, "t"), now, sizeof now, NULL) != ST_OK) return WRONG;
  st_free(file);
  if (memcmp(now, status == ST_OK ? kNew : kOld, sizeof now) != 0 || !target_is("old")) return WRONG;
  if (status == ST_OK) add_target();
  return status;
}

/* ---- the table -------------------------------------------------------------------------------------------------------- */

typedef struct test_case {
  const char *name;
  st_status (*act)(void);
  void (*prepare)(void);
  int every; /* 0: every allocation; otherwise every nth, for repetitive work */
} test_case;

static const test_case kCases[] = {
    {"st_open, mapped", open_mapped, NULL, 0},
    {"st_open, copy-on-write", open_copied, NULL, 0},
    {"st_open, automatic", open_automatic, NULL, 0},
    {"st_open, unmapped", open_reading, NULL, 0},
    {"st_open, index", open_index, NULL, 0},
    {"st_open, index on threads", open_index_on_threads, NULL, 0},
    {"st_open, 70 shards", open_many, NULL, 17},
    {"st_open, folder", open_folder, NULL, 0},
    {"st_open, absent", open_absent, NULL, 0},
    {"st_open_memory", open_memory, NULL, 0},
    {"st_open_memory, bad", open_bad, NULL, 0},
    {"st_open_fd", open_descriptor, NULL, 0},
    {"st_open_source", open_source, NULL, 0},
    {"st_open_source, serial", open_serial_source, NULL, 0},
    {"st_open_store", open_store, NULL, 0},
    {"st_open_store without close", open_store_without_close, NULL, 0},
    {"st_open_n", open_path_n, NULL, 0},
    {"st_get_header", header_of, NULL, 0},
    {"st_list_tensors, mapped", list_mapped, NULL, 0},
    {"st_list_tensors, automatic", list_automatic, NULL, 0},
    {"st_tensor_to_dlpack, view", export_view, NULL, 0},
    {"st_tensor_to_dlpack, copy", export_copy, NULL, 0},
    {"st_tensor_to_dlpack_legacy", export_legacy, NULL, 0},
    {"st_tensor_read", read_tensor, NULL, 0},
    {"st_tensor_read, wrong size", read_wrong_size, NULL, 0},
    {"st_read_shard", read_shard, NULL, 0},
    {"st_tensor_slice", slice, NULL, 0},
    {"st_tensor_read_slice", read_slice, NULL, 0},
    {"st_tensor_read_slice, mapped", read_slice_of_mapping, NULL, 0},
    {"st_tensor_read_slice, source", read_slice_of_source, NULL, 0},
    {"plan, automatic", plan_automatic, NULL, 0},
    {"plan, through the cache", plan_through, NULL, 0},
    {"plan, around the cache", plan_around, NULL, 0},
    {"plan, mapped", plan_of_mapping, NULL, 0},
    {"plan, source", plan_of_source, NULL, 0},
    {"plan, threads", plan_on_threads, NULL, 0},
    {"plan, around on threads", plan_around_on_threads, NULL, 0},
    {"plan, the host's threads", plan_on_host_threads, NULL, 0},
    {"st_buffer_new", buffer_at_once, NULL, 0},
    {"st_buffer_new, threads", buffer_on_threads, NULL, 0},
    {"st_buffer_new, lazy", buffer_lazy, NULL, 0},
    {"writer", write_whole, reset_target, 0},
    {"writer, synced", write_synced, reset_target, 0},
    {"writer, over the size limit", write_over_the_limit, reset_target, 0},
    {"writer, bintensors", write_bintensors, reset_target, 0},
    {"st_writer_copy_metadata", copy_metadata, reset_target, 0},
    {"st_edit_metadata in place", edit_in_place, reset_target, 0},
    {"st_edit_metadata in a new file", edit_in_a_new_file, reset_target, 0},
    {"st_tensor_write", write_tensor, reset_target, 0},
};

typedef struct held {
  long blocks, mappings;
  int descriptors, files;
} held;

static int entries(const char *folder) {
  int count = 0;
  DIR *const opened = opendir(folder);
  while (opened != NULL && readdir(opened) != NULL) ++count;
  if (opened != NULL) closedir(opened);
  return count;
}

static held now(void) {
  const held all = {memory_blocks, memory_mappings, entries("/proc/self/fd"), entries(".")};
  return all;
}

static int same(const held *a, const held *b) {
  return a->blocks == b->blocks && a->mappings == b->mappings && a->descriptors == b->descriptors &&
         a->files == b->files;
}

static void check_held(const char *name, long fails_at, int from_there, const held *before) {
  const held after = now();
  char where[200];
  snprintf(where, sizeof where, "%s, allocation %ld%s: blocks %+ld, mappings %+ld, descriptors %+d, files %+d", name,
           fails_at, from_there ? " and all after it" : "", after.blocks - before->blocks,
           after.mappings - before->mappings, after.descriptors - before->descriptors, after.files - before->files);
  CHECK_FOR(where, same(before, &after));
}

/* Returns the number of allocations. */
static long run_once(const test_case *test, long fails_at, int from_there) {
  static uint64_t undisturbed;
  const st_error fresh = ST_INIT(st_error);
  char where[120];
  error = fresh;
  result = 0;
  if (test->prepare != NULL) test->prepare();
  const held before = now();
  memory_arm(fails_at, from_there);
  st_status status = test->act();
  memory_disarm();
  const long calls = memory_calls;
  check_held(test->name, fails_at, from_there, &before);
  if (fails_at != 0 && found_no_memory(status)) {
    result = 0;
    status = test->act();
    check_held(test->name, fails_at, from_there, &before);
  }
  snprintf(where, sizeof where, "%s, allocation %ld%s: status %d", test->name, fails_at,
           from_there ? " and all after it" : "", (int)status);
  CHECK_FOR(where, status == ST_OK);
  if (fails_at == 0) undisturbed = result;
  CHECK_FOR(where, result == undisturbed);
  return calls;
}

static void each_allocation_fails(const test_case *test) {
  int from_there;
  long points = 0;
  run_once(test, 0, 0); /* makes the allocations that happen once per process */
  for (from_there = 0; from_there <= 1; ++from_there) {
    long at = 1;
    for (; run_once(test, at, from_there) >= at; at += test->every != 0 ? test->every : 1) ++points;
  }
  printf("%-32s %5ld failures\n", test->name, points);
}

static void *wait_for_all(void *barrier) {
  pthread_barrier_wait(barrier);
  return NULL;
}

/* The C library keeps the stacks and memory of ended threads. From now on, it keeps this many. */
static void keep_stacks(void) {
  pthread_t threads[THREADS];
  pthread_barrier_t barrier;
  pthread_attr_t small;
  int i;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, (size_t)256 << 10);
  pthread_setattr_default_np(&small);
  pthread_attr_destroy(&small);
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, wait_for_all, &barrier) == 0);
  for (i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv) {
  const st_open_options mapped = test_mode(ST_IO_MAP), reading = test_mode(ST_IO_READ);
  size_t i;
  alarm(300);
  signal(SIGXFSZ, SIG_IGN);
  test_enter_folder();
  keep_stacks();
  make_model();
  make_shards("few", SHARDS);
  make_shards("many", MANY);
  received = malloc((size_t)4 * MATRIX);
  CHECK(st_open("model.safetensors", &mapped, &model, NULL) == ST_OK);
  CHECK(st_open("model.safetensors", &reading, &unmapped, NULL) == ST_OK);
  for (i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    if (argc < 2 || strcmp(argv[1], kCases[i].name) == 0) each_allocation_fails(&kCases[i]);
  }
  if (argc < 2) write_without_buffers();
  st_free(model);
  st_free(unmapped);
  free(received);
  test_release(&model_bytes);
  test_leave_folder();
  return test_result();
}

#endif
