/* A NULL argument is rejected by name if it must not be NULL, and accepted otherwise.
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "test.h"

#include "folder.h"

/* The call ends with `, &err)`. */
#define REFUSED(argument, call)                                                                  \
  do {                                                                                           \
    st_error err = ST_INIT(st_error);                                                            \
    CHECK((call) == ST_ERR_ARGUMENT);                                                            \
    test_check(strstr(err.message, argument) != NULL, #call " names it", err.message, __LINE__); \
  } while (0)

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  memcpy(dst, (const unsigned char *)ctx + offset, n);
  return 0;
}

static st_status open_nothing(void *ctx, const char *name, st_source *source, st_error *err) {
  (void)ctx, (void)name, (void)source, (void)err;
  return ST_ERR_NOT_FOUND;
}

static void opening(const test_bytes *file) {
  st_file *out = NULL;
  st_report *report = NULL;
  st_source source = ST_INIT(st_source);
  st_store store = ST_INIT(st_store);
  REFUSED("path", st_open_n(NULL, 0, NULL, &out, &err));
  REFUSED("out", st_open_n("m.safetensors", 13, NULL, NULL, &err));
  REFUSED("path", st_open(NULL, NULL, &out, &err));
  REFUSED("out", st_open("m.safetensors", NULL, NULL, &err));
  REFUSED("data", st_open_memory(NULL, 9, NULL, NULL, NULL, &out, &err));
  REFUSED("out", st_open_memory(file->data, file->size, NULL, NULL, NULL, NULL, &err));
  REFUSED("out", st_open_fd(0, 0, 0, NULL, NULL, &err));
  REFUSED("source", st_open_source(NULL, NULL, &out, &err));
  REFUSED("source.read_at", st_open_source(&source, NULL, &out, &err));
  source.read_at = read_at;
  source.ctx = file->data;
  source.size = file->size;
  REFUSED("out", st_open_source(&source, NULL, NULL, &err));
  REFUSED("store", st_open_store(NULL, "m.safetensors", NULL, &out, &err));
  REFUSED("store.open", st_open_store(&store, "m.safetensors", NULL, &out, &err));
  store.open = open_nothing;
  REFUSED("name", st_open_store(&store, NULL, NULL, &out, &err));
  REFUSED("out", st_open_store(&store, "m.safetensors", NULL, NULL, &err));
  REFUSED("store", st_open_store_n(NULL, "m.safetensors", 13, NULL, &out, &err));
  REFUSED("name", st_open_store_n(&store, NULL, 0, NULL, &out, &err));
  REFUSED("out", st_open_store_n(&store, "m.safetensors", 13, NULL, NULL, &err));
  REFUSED("path", st_check(NULL, NULL, &report, &err));
  REFUSED("out", st_check("m.safetensors", NULL, NULL, &err));
  REFUSED("path", st_check_n(NULL, 0, NULL, &report, &err));
  REFUSED("out", st_check_n("m.safetensors", 13, NULL, NULL, &err));
  CHECK(report == NULL);
  CHECK(out == NULL && st_open_memory(NULL, 0, NULL, NULL, NULL, &out, NULL) == ST_ERR_TRUNCATED);
}

static void reading(const st_file *file) {
  const st_tensor *const w = st_get_tensor(file, "w");
  const int64_t begin[] = {1, 0}, end[] = {1, 2};
  st_plan *plan = NULL;
  st_tensor_list *list = NULL;
  struct DLManagedTensorVersioned *managed = NULL;
  struct DLManagedTensor *legacy = NULL;
  void *buffer = NULL;
  unsigned char bytes[16];
  st_error beyond = ST_INIT(st_error);
  REFUSED("file", st_read_shard(NULL, 0, 0, bytes, 1, &err));
  REFUSED("dst", st_read_shard(file, 0, 0, NULL, 1, &err));
  CHECK(st_read_shard(file, 1, 0, bytes, 1, &beyond) == ST_ERR_RANGE && strcmp(beyond.message, "shard 1 of 1") == 0);
  CHECK(st_read_shard(file, 0, 0, NULL, 0, NULL) == ST_OK);
  CHECK(st_read_shard(file, 0, st_get_shard_size(file, 0), NULL, 0, NULL) == ST_OK);
  REFUSED("tensor", st_tensor_read(NULL, bytes, 16, &err));
  REFUSED("dst", st_tensor_read(w, NULL, 16, &err));
  REFUSED("tensor", st_tensor_slice(NULL, NULL, NULL, NULL, NULL, NULL, NULL, &err));
  REFUSED("tensor", st_tensor_read_slice(NULL, NULL, NULL, NULL, bytes, 16, &err));
  REFUSED("dst", st_tensor_read_slice(w, NULL, NULL, NULL, NULL, 16, &err));
  CHECK(st_tensor_read_slice(w, begin, end, NULL, NULL, 0, NULL) == ST_OK);
  REFUSED("file", st_list_tensors(NULL, 0, &list, &err));
  REFUSED("out", st_list_tensors(file, 0, NULL, &err));
  REFUSED("tensor", st_tensor_to_dlpack(NULL, 0, &managed, &err));
  REFUSED("out", st_tensor_to_dlpack(w, 0, NULL, &err));
  REFUSED("tensor", st_tensor_to_dlpack_legacy(NULL, 0, &legacy, &err));
  REFUSED("out", st_tensor_to_dlpack_legacy(w, 0, NULL, &err));
  REFUSED("file", st_plan_new(NULL, &plan, &err));
  REFUSED("out", st_plan_new(file, NULL, &err));
  CHECK(st_plan_new(file, &plan, NULL) == ST_OK);
  REFUSED("plan", st_plan_add(NULL, w, NULL, NULL, NULL, bytes, 16, &err));
  REFUSED("tensor", st_plan_add(plan, NULL, NULL, NULL, NULL, bytes, 16, &err));
  REFUSED("dst", st_plan_add(plan, w, NULL, NULL, NULL, NULL, 16, &err));
  REFUSED("plan", st_plan_run(NULL, NULL, &err));
  CHECK(st_plan_run(plan, NULL, NULL) == ST_OK);
  st_plan_progress(plan, NULL, NULL);
  st_plan_free(plan);
  REFUSED("out", st_buffer_new(1, 0, 0, NULL, &err));
  CHECK(st_buffer_new(0, 0, 0, &buffer, NULL) == ST_OK && buffer != NULL);
  st_buffer_free(buffer);
  st_buffer_free(NULL);
  st_plan_free(NULL);
  st_free(NULL);
  st_tensor_advise(NULL, 1, ST_ADVICE_WILL_NEED);
  REFUSED("file", st_check_unchanged(NULL, 0, &err));
  CHECK(st_check_unchanged(file, 0, NULL) == ST_OK);
  CHECK(st_tensor_dtype_name_n(w, NULL) != NULL && st_get_shard_path_n(file, 0, NULL) != NULL);
  CHECK(st_get_warning_n(file, 0, NULL) == NULL && st_get_shard_path_n(file, 1, NULL) == NULL);
  CHECK(st_get_metadata(file, "format", NULL) != NULL && st_get_metadata_at(file, 0, NULL, NULL, NULL) != NULL);
  CHECK(st_tensor_name(w, NULL) != NULL && st_get_header(file, 0, NULL) != NULL);
  CHECK(st_dtype_from_name(NULL, 3) == ST_DTYPE_UNKNOWN);
}

static void *host_alloc(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}

static void host_free(void *ctx, void *ptr, size_t size) {
  (void)ctx;
  (void)size;
  free(ptr);
}

static int32_t copy(void *ctx, uint32_t queue, const st_device_copy *copies, size_t n, uint64_t *mark) {
  (void)ctx;
  (void)queue;
  (void)copies;
  (void)n;
  (void)mark;
  return 1;
}

static int32_t wait_for(void *ctx, uint32_t queue, uint64_t mark) {
  (void)ctx;
  (void)queue;
  (void)mark;
  return 0;
}

static void devices(const st_file *file) {
  const st_tensor *const w = st_get_tensor(file, "w");
  st_device_ops ops = ST_INIT(st_device_ops);
  st_device *device = NULL;
  st_plan *plan = NULL;
  void *memory = NULL;
  unsigned char bytes[16];
  ops.host_alloc = host_alloc;
  ops.host_free = host_free;
  ops.copy = copy;
  ops.wait = wait_for;
  REFUSED("out", st_device_open_cuda(NULL, NULL, &err));
  REFUSED("out", st_device_open_hip(NULL, NULL, &err));
  REFUSED("ops", st_device_new(NULL, NULL, &device, &err));
  REFUSED("out", st_device_new(&ops, NULL, NULL, &err));
  CHECK(st_device_new(&ops, NULL, &device, NULL) == ST_OK);
  REFUSED("device", st_device_alloc(NULL, 1, &memory, &err));
  REFUSED("out", st_device_alloc(device, 1, NULL, &err));
  CHECK(st_plan_new(file, &plan, NULL) == ST_OK);
  REFUSED("plan", st_plan_add_device(NULL, device, NULL, w, NULL, NULL, NULL, bytes, 16, &err));
  REFUSED("device", st_plan_add_device(plan, NULL, NULL, w, NULL, NULL, NULL, bytes, 16, &err));
  REFUSED("tensor", st_plan_add_device(plan, device, NULL, NULL, NULL, NULL, NULL, bytes, 16, &err));
  REFUSED("dst", st_plan_add_device(plan, device, NULL, w, NULL, NULL, NULL, NULL, 16, &err));
  st_plan_free(plan);
  st_device_free(device);
  st_device_free(NULL);
}

static void writing(const st_file *file) {
  const st_tensor *const w = st_get_tensor(file, "w");
  const char *const key = "k";
  const char *const no_key = NULL;
  const size_t one = 1;
  const uint64_t shape[] = {1};
  st_write_options options = ST_INIT(st_write_options);
  st_writer *writer = NULL;
  REFUSED("out", st_writer_new(NULL, &err));
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  REFUSED("writer", st_writer_set_metadata(NULL, "k", "v", &err));
  REFUSED("value", st_writer_set_metadata(writer, "k", NULL, &err));
  REFUSED("writer", st_writer_set_metadata_n(NULL, "k", 1, "v", 1, &err));
  REFUSED("key", st_writer_set_metadata_n(writer, NULL, 1, "v", 1, &err));
  REFUSED("value", st_writer_set_metadata_n(writer, "k", 1, NULL, 1, &err));
  CHECK(st_writer_set_metadata_n(writer, "empty", 5, NULL, 0, NULL) == ST_OK);
  REFUSED("writer", st_writer_copy_metadata(NULL, file, &err));
  REFUSED("file", st_writer_copy_metadata(writer, NULL, &err));
  REFUSED("writer", st_writer_add(NULL, "t", ST_U8, 0, NULL, "x", NULL, &err));
  REFUSED("name", st_writer_add(writer, NULL, ST_U8, 0, NULL, "x", NULL, &err));
  REFUSED("shape", st_writer_add(writer, "t", ST_U8, 1, NULL, "x", NULL, &err));
  REFUSED("writer", st_writer_add_n(NULL, "t", 1, ST_U8, 0, NULL, "x", NULL, &err));
  REFUSED("name", st_writer_add_n(writer, NULL, 1, ST_U8, 1, shape, "x", NULL, &err));
  CHECK(st_writer_add_n(writer, NULL, 0, ST_U8, 1, shape, "x", NULL, NULL) == ST_OK); /* the empty name */
  REFUSED("writer", st_writer_add_tensor(NULL, NULL, 0, w, &err));
  REFUSED("tensor", st_writer_add_tensor(writer, NULL, 0, NULL, &err));
  REFUSED("writer", st_writer_begin(NULL, "out", NULL, &err));
  REFUSED("path", st_writer_begin(writer, NULL, NULL, &err));
  REFUSED("writer", st_writer_begin_n(NULL, "out", 3, NULL, &err));
  REFUSED("path", st_writer_begin_n(writer, NULL, 0, NULL, &err));
  REFUSED("writer", st_writer_put(NULL, 0, 0, "x", 1, &err));
  REFUSED("writer", st_writer_finish(NULL, &err));
  options.ctx = &options; /* of no function */
  CHECK(st_writer_begin(writer, "out", &options, NULL) == ST_OK);
  REFUSED("data", st_writer_put(writer, 0, 0, NULL, 1, &err));
  CHECK(st_writer_put(writer, 0, 0, NULL, 0, NULL) == ST_OK);
  CHECK(st_writer_finish(writer, NULL) == ST_OK);
  st_writer_free(writer);
  st_writer_free(NULL);
  REFUSED("path", st_edit_metadata(NULL, &key, &key, 1, NULL, &err));
  REFUSED("keys", st_edit_metadata("out", NULL, &key, 1, NULL, &err));
  REFUSED("values", st_edit_metadata("out", &key, NULL, 1, NULL, &err));
  REFUSED("a key", st_edit_metadata("out", &no_key, &key, 1, NULL, &err));
  REFUSED("path", st_edit_metadata_n(NULL, 0, &key, &one, &key, &one, 1, NULL, &err));
  REFUSED("keys", st_edit_metadata_n("out", 3, NULL, &one, &key, &one, 1, NULL, &err));
  REFUSED("key_lens", st_edit_metadata_n("out", 3, &key, NULL, &key, &one, 1, NULL, &err));
  REFUSED("values", st_edit_metadata_n("out", 3, &key, &one, NULL, &one, 1, NULL, &err));
  REFUSED("value_lens", st_edit_metadata_n("out", 3, &key, &one, &key, NULL, 1, NULL, &err));
  REFUSED("a key", st_edit_metadata_n("out", 3, &no_key, &one, &key, &one, 1, NULL, &err));
  CHECK(st_edit_metadata_n("out", 3, NULL, NULL, NULL, NULL, 0, NULL, NULL) == ST_OK);
  REFUSED("path", st_tensor_write(NULL, "t", "x", 1, NULL, &err));
  REFUSED("name", st_tensor_write("out", NULL, "x", 1, NULL, &err));
  REFUSED("data", st_tensor_write("out", "t", NULL, 1, NULL, &err));
  REFUSED("path", st_tensor_write_n(NULL, 0, "t", 1, "x", 1, NULL, &err));
  REFUSED("name", st_tensor_write_n("out", 3, NULL, 1, "x", 1, NULL, &err));
  REFUSED("data", st_tensor_write_n("out", 3, "t", 1, NULL, 1, NULL, &err));
}

int main(void) {
  test_bytes file = test_file(TEST_TWO, 20);
  st_file *out = NULL;
  test_enter_folder();
  opening(&file);
  CHECK(test_open(&file, NULL, &out, NULL) == ST_OK);
  reading(out);
  devices(out);
  writing(out);
  st_free(out);
  test_release(&file);
  test_leave_folder();
  return test_result();
}
