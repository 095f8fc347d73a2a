/* Tensors that an index omits cause a warning, and no error.
 * SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

static const char kIndex[] = "{\"weight_map\":{\"w\":\"model-00001-of-00001.safetensors\"}}";

int main(void) {
  test_bytes shard = test_file(TEST_TWO, 20);
  st_open_options strict = ST_INIT(st_open_options);
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  test_enter_folder();
  test_save("model-00001-of-00001.safetensors", shard.data, shard.size);
  test_save("model.safetensors.index.json", kIndex, sizeof kIndex - 1);

  CHECK_FOR(err.message, st_open("model.safetensors.index.json", NULL, &file, &err) == ST_OK);
  CHECK(st_count_tensors(file) == 2);
  CHECK(st_count_warnings(file) == 1);
  CHECK(strstr(st_get_warning(file, 0), "1 tensors that the index does not list; the first is 'b'") != NULL);
  CHECK(st_get_warning(file, 1) == NULL);
  st_free(file);

  strict.flags = ST_OPEN_STRICT;
  CHECK(st_open("model.safetensors.index.json", &strict, &file, &err) == ST_ERR_SHARD);

  CHECK(test_open(&shard, NULL, &file, &err) == ST_OK);
  CHECK(st_count_warnings(file) == 0);
  CHECK(st_get_warning(file, 0) == NULL);
  st_free(file);

  test_release(&shard);
  test_leave_folder();
  return test_result();
}
