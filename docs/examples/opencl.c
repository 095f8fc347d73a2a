/* SPDX-License-Identifier: Apache-2.0 */
#include "opencl.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { kQueues = 2, kMostRanges = 4096 };

/* A buffer and the range of addresses that stands for it. Of pinned memory the addresses are real ones. The ranges of two
 * buffers may be neighbours: no copy that the library asks for is for two destinations of a plan. */
typedef struct range {
  char *begin;
  size_t size;
  cl_mem buffer;
} range;

typedef struct ranges {
  range list[kMostRanges];
  size_t count;
} ranges;

struct opencl_device {
  cl_context context;
  cl_command_queue queues[kQueues];
  cl_uint queue_count;
  pthread_mutex_t mutex; /* of the ranges */
  ranges memory;
  ranges pinned;
  char *next; /* the address of the next buffer */
};

static range *find(ranges *all, const void *address) {
  const char *at = address;
  size_t i;
  for (i = 0; i < all->count; ++i) {
    range *one = &all->list[i];
    if (at >= one->begin && (size_t)(at - one->begin) < one->size) return one;
  }
  return NULL;
}

static int add(opencl_device *self, ranges *all, char *begin, size_t size, cl_mem buffer) {
  int added;
  pthread_mutex_lock(&self->mutex);
  added = all->count < kMostRanges;
  if (added) {
    range *one = &all->list[all->count++];
    one->begin = begin;
    one->size = size;
    one->buffer = buffer;
  }
  pthread_mutex_unlock(&self->mutex);
  return added;
}

static cl_mem take(opencl_device *self, ranges *all, void *address) {
  cl_mem buffer = NULL;
  range *one;
  pthread_mutex_lock(&self->mutex);
  one = find(all, address);
  if (one != NULL) {
    buffer = one->buffer;
    *one = all->list[--all->count];
  }
  pthread_mutex_unlock(&self->mutex);
  return buffer;
}

cl_mem opencl_buffer(opencl_device *self, const void *address, size_t *offset) {
  cl_mem buffer = NULL;
  range *one;
  pthread_mutex_lock(&self->mutex);
  one = find(&self->memory, address);
  if (one != NULL) {
    buffer = one->buffer;
    *offset = (size_t)((const char *)address - one->begin);
  }
  pthread_mutex_unlock(&self->mutex);
  return buffer;
}

/* Memory that the driver allocates for the host is what it copies from fastest. */
static void *host_alloc(void *ctx, size_t size) {
  opencl_device *self = ctx;
  cl_int code;
  void *memory;
  cl_mem buffer = clCreateBuffer(self->context, CL_MEM_READ_ONLY | CL_MEM_ALLOC_HOST_PTR, size, NULL, &code);
  if (code != CL_SUCCESS) return NULL;
  memory =
      clEnqueueMapBuffer(self->queues[0], buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, NULL, NULL, &code);
  if (code == CL_SUCCESS && add(self, &self->pinned, memory, size, buffer)) return memory;
  clReleaseMemObject(buffer);
  return NULL;
}

static void host_free(void *ctx, void *memory, size_t size) {
  opencl_device *self = ctx;
  cl_mem buffer = take(self, &self->pinned, memory);
  (void)size;
  if (clEnqueueUnmapMemObject(self->queues[0], buffer, memory, 0, NULL, NULL) == CL_SUCCESS) clFinish(self->queues[0]);
  clReleaseMemObject(buffer);
}

/* The mark is an event behind the copies. */
static int32_t copy(void *ctx, uint32_t queue, const st_device_copy *copies, size_t n, uint64_t *mark) {
  opencl_device *self = ctx;
  cl_event behind = NULL;
  cl_int code = CL_SUCCESS;
  size_t i;
  for (i = 0; i < n && code == CL_SUCCESS; ++i) {
    size_t offset = 0;
    cl_mem buffer = opencl_buffer(self, copies[i].dst, &offset);
    code = buffer == NULL ? CL_INVALID_MEM_OBJECT
                          : clEnqueueWriteBuffer(self->queues[queue], buffer, CL_FALSE, offset, copies[i].n,
                                                 copies[i].src, 0, NULL, NULL);
  }
  if (code == CL_SUCCESS) code = clEnqueueMarkerWithWaitList(self->queues[queue], 0, NULL, &behind);
  if (code == CL_SUCCESS) code = clFlush(self->queues[queue]);
  if (code != CL_SUCCESS) {
    clFinish(self->queues[queue]); /* none may be under way after a failure */
    if (behind != NULL) clReleaseEvent(behind);
    return code;
  }
  *mark = (uint64_t)(uintptr_t)behind;
  return 0;
}

static int32_t wait(void *ctx, uint32_t queue, uint64_t mark) {
  cl_event event = (cl_event)(uintptr_t)mark;
  const cl_int code = clWaitForEvents(1, &event);
  (void)ctx, (void)queue;
  clReleaseEvent(event);
  return code;
}

/* stream: a cl_command_queue. */
static int32_t after(void *ctx, void *stream) {
  opencl_device *self = ctx;
  cl_event event;
  cl_uint i;
  cl_int code = clEnqueueMarkerWithWaitList(stream, 0, NULL, &event);
  if (code != CL_SUCCESS) return code;
  code = clFlush(stream);
  for (i = 0; i < self->queue_count && code == CL_SUCCESS; ++i)
    code = clEnqueueBarrierWithWaitList(self->queues[i], 1, &event, NULL);
  clReleaseEvent(event);
  return code;
}

static int32_t alloc(void *ctx, uint64_t size, void **out) {
  opencl_device *self = ctx;
  const uint64_t rounded = (size + 255) / 256 * 256;
  cl_int code;
  char *begin;
  cl_mem buffer = clCreateBuffer(self->context, CL_MEM_READ_WRITE, (size_t)size, NULL, &code);
  if (code != CL_SUCCESS) return code;
  pthread_mutex_lock(&self->mutex);
  begin = self->next;
  self->next += rounded;
  pthread_mutex_unlock(&self->mutex);
  if (!add(self, &self->memory, begin, (size_t)size, buffer)) {
    clReleaseMemObject(buffer);
    return CL_OUT_OF_RESOURCES;
  }
  *out = begin;
  return 0;
}

static void release(void *ctx, void *memory) {
  opencl_device *self = ctx;
  clReleaseMemObject(take(self, &self->memory, memory));
}

static const char *error_name(void *ctx, int32_t code) {
  (void)ctx;
  switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES: return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY: return "CL_OUT_OF_HOST_MEMORY";
    case CL_INVALID_VALUE: return "CL_INVALID_VALUE";
    case CL_INVALID_MEM_OBJECT: return "CL_INVALID_MEM_OBJECT";
    default: return NULL;
  }
}

static void close_device(void *ctx) {
  opencl_device *self = ctx;
  cl_uint i;
  for (i = 0; i < self->queue_count; ++i) clReleaseCommandQueue(self->queues[i]);
  pthread_mutex_destroy(&self->mutex);
  free(self);
}

st_status opencl_open(cl_context context, cl_device_id id, const st_device_options *options, st_device **device,
                      opencl_device **opencl, st_error *err) {
  st_device_options chosen = ST_INIT(st_device_options);
  st_device_ops ops = ST_INIT(st_device_ops);
  opencl_device *self = calloc(1, sizeof *self);
  st_status status;
  if (self == NULL) return ST_ERR_NO_MEMORY;
  self->context = context;
  self->next = (char *)(uintptr_t)256;
  pthread_mutex_init(&self->mutex, NULL);
  while (self->queue_count < kQueues) {
    cl_int code;
    self->queues[self->queue_count] = clCreateCommandQueue(context, id, 0, &code);
    if (code != CL_SUCCESS) {
      close_device(self);
      return ST_ERR_DEVICE;
    }
    ++self->queue_count;
  }
  if (options != NULL) chosen = *options;
  chosen.queues = kQueues;
  ops.ctx = self;
  ops.host_alloc = host_alloc;
  ops.host_free = host_free;
  ops.copy = copy;
  ops.wait = wait;
  ops.after = after;
  ops.alloc = alloc;
  ops.release = release;
  ops.error_name = error_name;
  ops.close = close_device;
  status = st_device_new(&ops, &chosen, device, err);
  if (status == ST_OK) *opencl = self;
  return status;
}
