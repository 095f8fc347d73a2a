/* mpi.h - makes a group of processes for st_plan_run from an MPI communicator. Header-only: it is
 * compiled with the program's own MPI, 3.0 or later. Everything here exists since version 0.3.0,
 * and may change before version 1.1 (convention 13 of safetensors.h).
 *
 *     MPI_Comm comm = MPI_COMM_WORLD;
 *     st_group group = ST_INIT(st_group);
 *     st_read_options options = ST_INIT(st_read_options);
 *     st_mpi_group(&comm, &group);
 *     options.group = &group;
 *     if (st_plan_run(plan, &options, &error) != ST_OK) ...
 *
 * MPI must have been initialized with MPI_THREAD_FUNNELED or more, because the library starts
 * threads. Only the thread that calls st_plan_run calls MPI. If other threads use the communicator
 * in the meantime, pass a duplicate of it (MPI_Comm_dup).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBSAFETENSORS_MPI_H
#define LIBSAFETENSORS_MPI_H

#include <mpi.h>
#include <safetensors/safetensors.h>

static inline int32_t st_mpi_allreduce_(void *ctx, st_reduce op, uint64_t *values, size_t n) {
  const MPI_Op combine = op == ST_REDUCE_SUM ? MPI_SUM : op == ST_REDUCE_MIN ? MPI_MIN : MPI_MAX;
  return MPI_Allreduce(MPI_IN_PLACE, values, (int)n, MPI_UINT64_T, combine, *(MPI_Comm *)ctx);
}

static inline int32_t st_mpi_alltoallv_(void *ctx, const void *send, const int32_t *send_counts,
                                        const int32_t *send_offsets, void *recv,
                                        const int32_t *recv_counts, const int32_t *recv_offsets) {
  return MPI_Alltoallv(send, send_counts, send_offsets, MPI_BYTE, recv, recv_counts, recv_offsets,
                       MPI_BYTE, *(MPI_Comm *)ctx);
}

/* Fills *group, which ST_INIT has initialized. The group keeps the pointer comm, and both must be
 * valid while plans run with the group. Returns MPI_SUCCESS or an error code of MPI. */
static inline int st_mpi_group(MPI_Comm *comm, st_group *group) {
  int rank = 0, size = 0;
  int code = MPI_Comm_rank(*comm, &rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(*comm, &size);
  group->ctx = comm;
  group->rank = (uint32_t)rank;
  group->size = (uint32_t)size;
  group->allreduce = st_mpi_allreduce_;
  group->alltoallv = st_mpi_alltoallv_;
  return code;
}

#endif
