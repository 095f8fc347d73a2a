/* In each run, one process of MPI_COMM_WORLD fails to read or is cancelled at a random point. All processes must return in
 * the same round and name it. run.py starts them.
 *
 * usage: failures FILE RUNS
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <safetensors/mpi.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REFUSED = 5, OPERATIONS_OF_A_ROUND = 4 };

typedef struct process {
  MPI_Comm comm;
  int file;
  int64_t left;   /* bytes until read_at() fails */
  int calls_left; /* calls until progress() cancels */
  int failed;     /* read_at() or progress() has failed */
  int operations; /* calls of the group's functions, since then if it has failed */
} process;

static int rank, size, faults;

static void check(int holds, int run, const char *what) {
  if (holds) return;
  fprintf(stderr, "process %d, run %d: %s\n", rank, run, what);
  ++faults;
}

static void fail(process *self) {
  self->failed = 1;
  __atomic_store_n(&self->operations, 0, __ATOMIC_RELAXED);
}

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  process *const self = (process *)ctx;
  if (__atomic_sub_fetch(&self->left, (int64_t)n, __ATOMIC_RELAXED) < 0) {
    fail(self);
    return REFUSED;
  }
  return pread(self->file, dst, n, (off_t)offset) == (ssize_t)n ? 0 : 1;
}

static int32_t progress(void *ctx, uint64_t done, uint64_t total) {
  process *const self = (process *)ctx;
  (void)done, (void)total;
  if (self->failed || --self->calls_left > 0) return self->failed;
  fail(self);
  return 1;
}

static int32_t allreduce(void *ctx, st_reduce op, uint64_t *values, size_t n) {
  process *const self = (process *)ctx;
  __atomic_add_fetch(&self->operations, 1, __ATOMIC_RELAXED);
  return st_mpi_allreduce_(&self->comm, op, values, n);
}

static int32_t alltoallv(void *ctx, const void *send, const int32_t *send_counts, const int32_t *send_offsets,
                         void *recv, const int32_t *recv_counts, const int32_t *recv_offsets) {
  process *const self = (process *)ctx;
  __atomic_add_fetch(&self->operations, 1, __ATOMIC_RELAXED);
  return st_mpi_alltoallv_(&self->comm, send, send_counts, send_offsets, recv, recv_counts, recv_offsets);
}

/* The same numbers in all processes. */
static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

int main(int argc, char **argv) {
  process self = {0};
  st_group group = ST_INIT(st_group);
  st_source source = ST_INIT(st_source);
  st_error error = ST_INIT(st_error);
  st_file *file = NULL;
  struct stat attributes;
  uint32_t random = 1;
  int run, given = MPI_THREAD_SINGLE, failures = 0;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS || argc != 3) return 2;
  self.comm = MPI_COMM_WORLD;
  self.left = INT64_MAX;
  st_mpi_group(&self.comm, &group);
  group.ctx = &self;
  group.allreduce = allreduce;
  group.alltoallv = alltoallv;
  rank = (int)group.rank;
  size = (int)group.size;
  self.file = open(argv[1], O_RDONLY);
  check(self.file >= 0 && fstat(self.file, &attributes) == 0, 0, argv[1]);
  source.ctx = &self;
  source.size = (uint64_t)attributes.st_size;
  source.read_at = read_at;
  check(st_open_source(&source, NULL, &file, &error) == ST_OK, 0, error.message);

  for (run = 1; run <= atoi(argv[2]); ++run) {
    const int failing = (int)(next_random(&random) % (uint32_t)size);
    const int cancels = (int)(next_random(&random) % 3 == 0);
    const int64_t until = next_random(&random) % (source.size / (uint64_t)size);
    const int calls = 1 + (int)(next_random(&random) % 6);
    const int threads = (int)(next_random(&random) % 2);
    st_read_options options = ST_INIT(st_read_options);
    st_plan *plan = NULL;
    char named[64];
    st_status status;
    int failed, i;
    size_t t;
    unsigned char *dst[2] = {NULL, NULL};
    check(st_plan_new(file, &plan, &error) == ST_OK, run, error.message);
    for (t = 0; t < 2; ++t) { /* all of the second, and rows of the first */
      const st_tensor *const tensor = st_get_tensor_at(file, t);
      const int64_t rows = (int64_t)st_tensor_shape(tensor)[0];
      const int64_t begin[2] = {t == 0 ? rows * rank / size / 2 : 0, 0};
      const int64_t end[2] = {t == 0 ? rows * (rank + 1) / size : rows,
                              t == 0 ? (int64_t)st_tensor_shape(tensor)[1] : 0};
      const size_t bytes = (size_t)((uint64_t)(end[0] - begin[0]) * (st_tensor_bytes(tensor) / (uint64_t)rows));
      dst[t] = (unsigned char *)malloc(bytes);
      check(st_plan_add(plan, tensor, begin, end, NULL, dst[t], bytes, &error) == ST_OK, run, error.message);
    }
    options.group = &group;
    options.exchange_bytes = 1 << 20;
    options.threads = (uint32_t)threads;
    options.ctx = &self;
    options.progress = progress;
    self.calls_left = rank == failing && cancels ? calls : 1 << 30;
    self.left = rank == failing && !cancels ? until : INT64_MAX;
    self.failed = self.operations = 0;
    status = st_plan_run(plan, &options, &error);

    failed = self.failed && status != ST_OK; /* a cancel may be too late */
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, self.comm);
    failures += failed;
    snprintf(named, sizeof(named), "process %d of the group %s", failing,
             cancels ? "was cancelled" : "failed with ST_ERR_CALLBACK");
    if (!failed) {
      check(status == ST_OK, run, error.message);
    } else if (rank == failing) {
      check(status == (cancels ? ST_ERR_CANCELLED : ST_ERR_CALLBACK), run, error.message);
      check(self.operations <= OPERATIONS_OF_A_ROUND, run, "went on for more than a round");
    } else {
      check(status == (cancels ? ST_ERR_CANCELLED : ST_ERR_PEER), run, error.message);
      check(strstr(error.message, named) != NULL, run, error.message);
    }
    st_plan_free(plan);
    for (i = 0; i < 2; ++i) free(dst[i]);
  }
  MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, self.comm);
  if (rank == 0) printf("%d processes: %d of %s runs ended by a failure, %d faults\n", size, failures, argv[2], faults);
  st_free(file);
  close(self.file);
  MPI_Finalize();
  return faults == 0 ? 0 : 1;
}
