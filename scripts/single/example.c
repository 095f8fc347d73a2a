/* cc -c example.c && c++ -std=c++17 -O2 -pthread example.o safetensors.cpp -o example */
#include "safetensors.h"

#include <stdio.h>

int main(int argc, char **argv) {
  st_error error = ST_INIT(st_error);
  st_file *file = NULL;
  size_t i;

  if (st_open(argc > 1 ? argv[1] : "model.safetensors", NULL, &file, &error) != ST_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  for (i = 0; i < st_count_tensors(file); ++i) {
    const st_tensor *tensor = st_get_tensor_at(file, i);
    printf("%s %s\n", st_tensor_dtype_name(tensor), st_tensor_name(tensor, NULL));
  }
  st_free(file);
  return 0;
}
