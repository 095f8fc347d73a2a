/* The structs of DLPack, written from its specification, independent of the library's.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ST_TEST_DLPACK_H
#define ST_TEST_DLPACK_H

#include <stdint.h>

typedef struct seen_tensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} seen_tensor;

struct DLManagedTensor {
  seen_tensor tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  seen_tensor tensor;
};

typedef struct DLManagedTensorVersioned versioned;
typedef struct DLManagedTensor legacy;

#endif
