/* A device made by a C program, and the error of opening a device without a driver.
 * SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

enum { kRows = 300, kColumns = 7000, kMostCopies = 4096 };

/* Its memory is host memory, and wait() makes the copies. With threads = 1 it needs no lock. */
typedef struct machine {
  st_device_copy copies[kMostCopies];
  size_t ends[kMostCopies]; /* of the copies of each mark */
  size_t count, marks, waits, slots, most_slots, closed;
  size_t slot_bytes;
  const void *stream; /* that the copies follow */
} machine;

static void *host_alloc(void *ctx, size_t size) {
  machine *self = ctx;
  self->slot_bytes = size;
  if (++self->slots > self->most_slots) self->most_slots = self->slots;
  return test_alloc(size);
}

static void host_free(void *ctx, void *memory, size_t size) {
  machine *self = ctx;
  CHECK(size == self->slot_bytes);
  --self->slots;
  free(memory);
}

static int32_t copy(void *ctx, uint32_t queue, const st_device_copy *copies, size_t n, uint64_t *mark) {
  machine *self = ctx;
  size_t i;
  CHECK(queue < 3 && n > 0);
  if (self->count + n > kMostCopies || self->marks == kMostCopies) return 5;
  for (i = 0; i < n; ++i) self->copies[self->count++] = copies[i];
  self->ends[self->marks] = self->count;
  *mark = self->marks++;
  return 0;
}

static int32_t wait_for(void *ctx, uint32_t queue, uint64_t mark) {
  machine *self = ctx;
  size_t i = mark == 0 ? 0 : self->ends[mark - 1];
  (void)queue;
  ++self->waits;
  for (; i < self->ends[mark]; ++i) memcpy(self->copies[i].dst, self->copies[i].src, self->copies[i].n);
  return 0;
}

static int32_t after(void *ctx, void *stream) {
  machine *self = ctx;
  CHECK(self->marks == 0);
  self->stream = stream;
  return 0;
}

static void close_device(void *ctx) { ++((machine *)ctx)->closed; }

static st_device *open_machine(machine *self, uint64_t staging_bytes) {
  st_device_ops ops = ST_INIT(st_device_ops);
  st_device_options options = ST_INIT(st_device_options);
  st_device *device = NULL;
  st_error err = ST_INIT(st_error);
  memset(self, 0, sizeof *self);
  ops.ctx = self;
  ops.host_alloc = host_alloc;
  ops.host_free = host_free;
  ops.copy = copy;
  ops.wait = wait_for;
  ops.after = after;
  ops.close = close_device;
  options.queues = 3;
  options.staging_bytes = staging_bytes;
  CHECK_FOR(err.message, st_device_new(&ops, &options, &device, &err) == ST_OK);
  return device;
}

static void count_ready(void *ctx, size_t i) { ++((size_t *)ctx)[i]; }

/* A whole tensor, and columns of it, on a device; and the tensor in the host's memory. */
static void test_a_plan(const st_file *file, uint64_t staging_bytes) {
  static machine self;
  static unsigned char whole[kRows * kColumns], columns[kRows * 10], host[kRows * kColumns];
  const st_tensor *m = st_get_tensor(file, "m");
  const unsigned char *expected = st_tensor_data(m);
  const int64_t begin[] = {0, 20}, end[] = {INT64_MAX, 30};
  size_t told[3] = {0, 0, 0}, i;
  st_device *device = open_machine(&self, staging_bytes);
  st_plan *plan = NULL;
  st_read_options options = ST_INIT(st_read_options);
  st_plan_stats stats = ST_INIT(st_plan_stats);
  st_error err = ST_INIT(st_error);
  memset(whole, 0, sizeof whole);
  memset(host, 0, sizeof host);
  CHECK(st_plan_new(file, &plan, &err) == ST_OK);
  CHECK(st_plan_add_device(plan, device, NULL, m, NULL, NULL, NULL, whole, sizeof whole, &err) == ST_OK);
  CHECK(st_plan_add_device(plan, device, told, m, begin, end, NULL, columns, sizeof columns, &err) == ST_OK);
  CHECK(st_plan_add(plan, m, NULL, NULL, NULL, host, sizeof host, &err) == ST_OK);
  st_device_free(device);
  CHECK(self.closed == 0); /* the plan keeps it open */
  options.threads = 1;
  options.ctx = told;
  options.ready = count_ready;
  CHECK_FOR(err.message, st_plan_run(plan, &options, &err) == ST_OK);
  CHECK(memcmp(whole, expected, sizeof whole) == 0 && memcmp(host, expected, sizeof host) == 0);
  for (i = 0; i < sizeof columns; ++i) CHECK(columns[i] == expected[i / 10 * kColumns + 20 + i % 10]);
  CHECK(told[0] == 1 && told[1] == 1 && told[2] == 1);
  CHECK(self.waits == self.marks && self.marks > 0 && self.stream == told);
  CHECK(self.most_slots * self.slot_bytes <= (staging_bytes == 0 ? 64U << 20 : staging_bytes));
  st_plan_get_stats(plan, &stats);
  CHECK(stats.bytes_wanted == 2 * sizeof whole + sizeof columns && stats.bytes_copied == sizeof whole + sizeof columns);
  CHECK(stats.copies == self.count && stats.staging_bytes == self.slots * self.slot_bytes);
  st_plan_free(plan);
  CHECK(self.closed == 1 && self.slots == 0);
}

/* The machine may have a driver. Without one, *out is unchanged. */
static void test_no_driver(st_status (*open_device)(const st_device_options *, st_device **, st_error *),
                           const char *names) {
  st_device *device = NULL;
  st_device_options options = ST_INIT(st_device_options);
  st_error err = ST_INIT(st_error);
  const st_status status = open_device(NULL, &device, &err);
  CHECK_FOR(err.message, status == ST_OK || status == ST_ERR_UNSUPPORTED || status == ST_ERR_DEVICE);
  CHECK((status == ST_OK) == (device != NULL) && (status == ST_OK) == (err.message[0] == '\0'));
  CHECK_FOR(err.message, strstr(err.message, "cannot load any of ") == NULL || strstr(err.message, names) != NULL);
  st_device_free(device);
  device = NULL;
  options.library = "no/such/driver";
  CHECK(open_device(&options, &device, &err) == ST_ERR_UNSUPPORTED && device == NULL);
  CHECK_FOR(err.message, strstr(err.message, "no/such/driver") != NULL);
}

static void test_null_arguments(const st_file *file) {
  static machine self;
  const st_tensor *m = st_get_tensor(file, "m");
  st_device_ops ops = ST_INIT(st_device_ops);
  st_device *device = open_machine(&self, 0);
  st_plan *plan = NULL;
  unsigned char byte = 0;
  void *memory = NULL;
  st_error err = ST_INIT(st_error);
  CHECK(st_plan_new(file, &plan, NULL) == ST_OK);
  CHECK(st_device_new(NULL, NULL, &device, &err) == ST_ERR_ARGUMENT && strcmp(err.message, "ops is NULL") == 0);
  CHECK(st_device_new(&ops, NULL, &device, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_device_open_cuda(NULL, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_device_open_hip(NULL, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_device_alloc(NULL, 1, &memory, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_device_alloc(device, 1, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_device_alloc(device, 1, &memory, NULL) == ST_ERR_UNSUPPORTED && memory == NULL);
  CHECK(st_plan_add_device(NULL, device, NULL, m, NULL, NULL, NULL, &byte, 1, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_plan_add_device(plan, NULL, NULL, m, NULL, NULL, NULL, &byte, 1, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_plan_add_device(plan, device, NULL, NULL, NULL, NULL, NULL, &byte, 1, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_plan_add_device(plan, device, NULL, m, NULL, NULL, NULL, NULL, kRows * kColumns, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_plan_add_device(plan, device, NULL, m, NULL, NULL, NULL, &byte, 1, NULL) == ST_ERR_BUFFER_SIZE);
  CHECK(st_plan_run(plan, NULL, NULL) == ST_OK && self.marks == 0); /* none of them was added */
  st_device_release(device, NULL);
  st_device_release(NULL, NULL);
  st_device_free(NULL);
  st_plan_free(plan);
  st_device_free(device);
  CHECK(self.closed == 1);
}

int main(void) {
  test_bytes bytes = test_file("{\"m\":{\"dtype\":\"U8\",\"shape\":[300,7000],\"data_offsets\":[0,2100000]}}", 2100000);
  st_file *file = NULL;
  CHECK(test_open(&bytes, NULL, &file, NULL) == ST_OK);
  test_a_plan(file, 0);
  test_a_plan(file, 4 << 20);
  test_no_driver(st_device_open_cuda, "any of libcuda.so.1, nvcuda.dll");
  test_no_driver(st_device_open_hip, "any of libamdhip64.so.7, libamdhip64.so.6, ");
  test_null_arguments(file);
  st_free(file);
  test_release(&bytes);
  return test_result();
}
