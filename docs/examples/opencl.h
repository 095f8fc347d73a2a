/* opencl.h - a device of OpenCL for plans of libsafetensors, made of st_device_ops.
 *
 * An example of a device that the library does not know: copy the two files and change them as you like.
 *
 * Memory of OpenCL has no addresses, but buffers and offsets. opencl_alloc gives a buffer a range of numbers that serve as
 * addresses; opencl_buffer tells which buffer an address is in, for kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef OPENCL_DEVICE_H
#define OPENCL_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <safetensors/safetensors.h>

typedef struct opencl_device opencl_device;

/* Makes the device. Both arguments stay the caller's, and must live until st_device_free. *device is closed with
 * st_device_free, after which *opencl is gone, too. */
st_status opencl_open(cl_context context, cl_device_id id, const st_device_options *options, st_device **device,
                      opencl_device **opencl, st_error *err);

/* The buffer that holds an address of st_device_alloc, and the offset in it; NULL if there is none. */
cl_mem opencl_buffer(opencl_device *opencl, const void *address, size_t *offset);

#endif
