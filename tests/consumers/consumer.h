/* The code shared by all consumers in C and C++, so the projects differ only in how they find the library.
 *
 * A header, because each of them compiles it with its own compiler and flags. Returns 0 if all results are right.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CONSUMER_H
#define CONSUMER_H

#include <safetensors/safetensors.h>

#include <stdio.h>
#include <string.h>

static const char consumer_header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ";

static size_t consumer_file(unsigned char *bytes) {
  const float data[2] = {1.5F, -2.0F};
  const size_t length = sizeof(consumer_header) - 1;
  memset(bytes, 0, 8);
  bytes[0] = (unsigned char)length;
  memcpy(bytes + 8, consumer_header, length);
  memcpy(bytes + 8 + length, data, sizeof(data));
  return 8 + length + sizeof(data);
}

static int consumer_read(const unsigned char *bytes, size_t size) {
  st_error error = ST_INIT(st_error);
  st_open_options options = ST_INIT(st_open_options);
  st_file *file = NULL;
  float values[2] = {0.0F, 0.0F};
  int right;
  if (st_open_memory(bytes, size, NULL, NULL, &options, &file, &error) != ST_OK) {
    printf("%s\n", error.message);
    return 0;
  }
  right = st_count_tensors(file) == 1 &&
          st_tensor_read(st_get_tensor(file, "a"), values, sizeof(values), &error) == ST_OK && values[0] == 1.5F &&
          values[1] == -2.0F;
  st_free(file);
  return right;
}

static int consumer_refused(const unsigned char *bytes, size_t size) {
  st_error error = ST_INIT(st_error);
  st_file *file = NULL;
  const st_status status = st_open_memory(bytes, size, NULL, NULL, NULL, &file, &error);
  return status == ST_ERR_COVERAGE && error.status == status && error.message[0] != '\0' && file == NULL;
}

static int consumer_main(void) {
  unsigned char bytes[128];
  const size_t size = consumer_file(bytes);
  if (!consumer_read(bytes, size)) {
    puts("the tensor was not read");
    return 1;
  }
  if (!consumer_refused(bytes, size - 1)) {
    puts("a file that lacks a byte was not refused");
    return 1;
  }
  puts(st_version_string());
  return st_version() == ST_VERSION_NUMBER ? 0 : 1;
}

#endif
