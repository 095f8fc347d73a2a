/* Opens the system's driver by its name, even if another library is already loaded: installed DRIVER [LIBRARY]
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <safetensors/safetensors.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  st_device *device = NULL;
  st_error err = ST_INIT(st_error);
  if (argc < 2 || (argc > 2 && dlopen(argv[2], RTLD_NOW) == NULL)) return 2;
  if (strcmp(argv[1], "cuda") == 0) {
    st_device_open_cuda(NULL, &device, &err);
  } else {
    st_device_open_hip(NULL, &device, &err);
  }
  if (device == NULL) printf("%s\n", err.message);
  st_device_free(device);
  return device == NULL ? 1 : 0;
}
