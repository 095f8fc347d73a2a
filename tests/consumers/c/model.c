/* Opens model.safetensors, lists it, reads a tensor, a slice and, with a plan, several tensors; writes a file, reads it
 * back, and shows an error. The programs in all other languages do the same and print the same.
 *
 *     model                  works in the current folder
 *     model --list FILE      times the listing of all tensors
 *
 * It is C11 without extensions, so every compiler accepts it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <safetensors/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(st_status status, const st_error *error) {
  if (status == ST_OK) return;
  fprintf(stderr, "%s: %s\n", st_status_name(status), error->message);
  exit(1);
}

static st_file *open_model(const char *path) {
  st_error error = ST_INIT(st_error);
  st_file *file = NULL;
  check(st_open(path, NULL, &file, &error), &error);
  return file;
}

static void print_floats(const char *title, const float *values, size_t count) {
  size_t i;
  printf("%s:", title);
  for (i = 0; i < count; ++i) printf(" %g", values[i]);
  printf("\n");
}

static void list(const st_file *file) {
  st_error error = ST_INIT(st_error);
  st_tensor_list *all = NULL;
  uint64_t i, d;
  check(st_list_tensors(file, 0, &all, &error), &error);
  printf("model.safetensors: %" PRIu64 " tensors, format %s\n", all->count, st_get_metadata(file, "format", NULL));
  for (i = 0; i < all->count; ++i) {
    printf("  %s %s [", all->names + all->name_offsets[i], st_dtype_name(all->dtypes[i]));
    for (d = all->dim_offsets[i]; d < all->dim_offsets[i + 1]; ++d)
      printf("%s%" PRIu64, d == all->dim_offsets[i] ? "" : ", ", all->dims[d]);
    printf("] %" PRIu64 " bytes\n", all->sizes[i]);
  }
  st_tensor_list_free(all);
}

static void read_one(const st_file *file) {
  st_error error = ST_INIT(st_error);
  float values[3];
  check(st_tensor_read(st_get_tensor(file, "bias"), values, sizeof(values), &error), &error);
  print_floats("bias", values, 3);
}

/* weight[1:3, ::-1] */
static void read_slice(const st_file *file) {
  const int64_t begin[] = {1, ST_SLICE_END}, end[] = {3, ST_SLICE_BEGIN}, step[] = {1, -1};
  const st_tensor *weight = st_get_tensor(file, "weight");
  st_error error = ST_INIT(st_error);
  uint64_t bytes = 0;
  float *values;
  check(st_tensor_slice(weight, begin, end, step, NULL, &bytes, NULL, &error), &error);
  values = malloc((size_t)bytes);
  check(st_tensor_read_slice(weight, begin, end, step, values, (size_t)bytes, &error), &error);
  print_floats("weight[1:3, ::-1]", values, (size_t)bytes / sizeof(float));
  free(values);
}

static int32_t progress(void *ctx, uint64_t done, uint64_t total) {
  uint64_t *last = ctx;
  last[0] = done;
  last[1] = total;
  return 0;
}

static void read_many(const st_file *file) {
  st_error error = ST_INIT(st_error);
  st_read_options options = ST_INIT(st_read_options);
  st_plan *plan = NULL;
  float weight[12], bias[3]; /* the plan keeps their addresses until it has run */
  uint64_t last[2] = {0, 0};
  check(st_plan_new(file, &plan, &error), &error);
  check(st_plan_add(plan, st_get_tensor(file, "weight"), NULL, NULL, NULL, weight, sizeof(weight), &error), &error);
  check(st_plan_add(plan, st_get_tensor(file, "bias"), NULL, NULL, NULL, bias, sizeof(bias), &error), &error);
  options.threads = 1;
  options.progress = progress;
  options.ctx = last;
  check(st_plan_run(plan, &options, &error), &error);
  st_plan_free(plan);
  printf("plan: %" PRIu64 " of %" PRIu64 " bytes, the last weight is %g\n", last[0], last[1], weight[11]);
}

static void convert(const st_file *file) {
  st_error error = ST_INIT(st_error);
  uint16_t halves[2];
  float values[2];
  check(st_tensor_read(st_get_tensor(file, "scale"), halves, sizeof(halves), &error), &error);
  check(st_convert(ST_BF16, halves, ST_F32, values, 2, &error), &error);
  print_floats("scale as F32", values, 2);
}

static void write_and_read_back(const st_file *file) {
  static const float doubled[] = {1.0F, -2.5F, 4.0F};
  const uint64_t shape[] = {3};
  st_error error = ST_INIT(st_error);
  st_writer *writer = NULL;
  st_file *written;
  float values[3];
  size_t index = 0;
  check(st_writer_new(&writer, &error), &error);
  check(st_writer_copy_metadata(writer, file, &error), &error);
  check(st_writer_add_tensor(writer, NULL, 0, st_get_tensor(file, "scale"), &error), &error);
  check(st_writer_add(writer, "doubled", ST_F32, 1, shape, NULL, &index, &error), &error);
  check(st_writer_begin(writer, "written.safetensors", NULL, &error), &error);
  check(st_writer_put(writer, index, 0, doubled, sizeof(doubled), &error), &error);
  check(st_writer_finish(writer, &error), &error);
  st_writer_free(writer);

  written = open_model("written.safetensors");
  check(st_tensor_read(st_get_tensor(written, "doubled"), values, sizeof(values), &error), &error);
  print_floats("written.safetensors, doubled", values, 3);
  st_free(written);
}

static void show_error(void) {
  st_error error = ST_INIT(st_error);
  st_file *file = NULL;
  const st_status status = st_open("truncated.safetensors", NULL, &file, &error);
  printf("%s: %s\n", st_status_name(status), error.message);
}

static double now_ms(void) { return (double)clock() * 1e3 / CLOCKS_PER_SEC; }

static void time_listing(const char *path) {
  st_file *file = open_model(path);
  const double start = now_ms();
  st_error error = ST_INIT(st_error);
  st_tensor_list *all = NULL;
  uint64_t getters = 0, columns = 0, i, d;
  double middle;
  for (i = 0; i < st_count_tensors(file); ++i) {
    const st_tensor *tensor = st_get_tensor_at(file, (size_t)i);
    size_t length;
    st_tensor_name(tensor, &length);
    getters += length + (uint64_t)st_tensor_dtype(tensor) + st_tensor_bytes(tensor) + st_tensor_offset(tensor);
    for (d = 0; d < st_tensor_rank(tensor); ++d) getters += st_tensor_shape(tensor)[d];
  }
  middle = now_ms();
  check(st_list_tensors(file, 0, &all, &error), &error);
  for (i = 0; i < all->count; ++i) {
    columns += all->name_offsets[i + 1] - all->name_offsets[i] - 1 + (uint64_t)all->dtypes[i] + all->sizes[i] +
               all->offsets[i];
    for (d = all->dim_offsets[i]; d < all->dim_offsets[i + 1]; ++d) columns += all->dims[d];
  }
  st_tensor_list_free(all);
  printf("getters %.1f ms, columns %.1f ms%s\n", middle - start, now_ms() - middle,
         getters == columns ? "" : ", which differ");
  st_free(file);
}

int main(int argc, char **argv) {
  st_file *file;
  if (argc == 3 && strcmp(argv[1], "--list") == 0) {
    time_listing(argv[2]);
    return 0;
  }
  file = open_model("model.safetensors");
  list(file);
  read_one(file);
  read_slice(file);
  read_many(file);
  convert(file);
  write_and_read_back(file);
  show_error();
  st_free(file);
  return 0;
}
