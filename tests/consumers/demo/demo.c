/* Opens the checkpoint of make_gpt2.c, reads one tensor whole, and checks each of its values.
 *
 * The tensor is the largest, 38,597,376 values: copied out, compared with the view, and then value by value with the
 * formula that made it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <safetensors/safetensors.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPeriod = 65536, kStep = 977 };

static size_t place_of(const st_file *file, const st_tensor *tensor) {
  size_t place = 0;
  while (st_get_tensor_at(file, place) != tensor) ++place;
  return place;
}

static int check(const st_file *file, const st_tensor *tensor, const float *values) {
  const size_t turn = place_of(file, tensor) * kStep;
  const uint64_t count = st_tensor_elements(tensor);
  for (uint64_t j = 0; j < count; ++j) {
    const float expected = (float)(2 * ((j + turn) % kPeriod) + 1) / kPeriod - 1.0F;
    if (values[j] != expected) {
      fprintf(stderr, "value %" PRIu64 " is %g, not %g\n", j, (double)values[j], (double)expected);
      return 1;
    }
  }
  const uint64_t *shape = st_tensor_shape(tensor);
  printf("%s %s [%" PRIu64 ", %" PRIu64 "]: all %" PRIu64 " values are right\n", st_tensor_name(tensor, NULL),
         st_tensor_dtype_name(tensor), shape[0], shape[1], count);
  return 0;
}

static int demo(const st_file *file) {
  st_error error = ST_INIT(st_error);
  const st_tensor *tensor = st_get_tensor(file, "wte.weight");
  if (st_count_tensors(file) != 160 || !tensor || st_tensor_rank(tensor) != 2) {
    fputs("this is not the checkpoint of the demo\n", stderr);
    return 1;
  }
  const size_t bytes = (size_t)st_tensor_bytes(tensor);
  float *values = malloc(bytes);
  int result = 1;
  if (!values || st_tensor_read(tensor, values, bytes, &error) != ST_OK) {
    fprintf(stderr, "%s\n", error.message);
  } else if (st_tensor_data(tensor) && memcmp(st_tensor_data(tensor), values, bytes) != 0) {
    fputs("the view and the copy differ\n", stderr);
  } else {
    result = check(file, tensor, values);
  }
  free(values);
  return result;
}

int main(int argc, char **argv) {
  st_error error = ST_INIT(st_error);
  st_file *file = NULL;
  if (argc != 2) return 2;
  if (st_open(argv[1], NULL, &file, &error) != ST_OK) {
    fprintf(stderr, "%s: %s\n", st_status_name(error.status), error.message);
    return 1;
  }
  printf("libsafetensors %s opened %zu tensors\n", st_version_string(), st_count_tensors(file));
  const int result = demo(file);
  st_free(file);
  return result;
}
