/* Each process of MPI_COMM_WORLD reads all of one tensor, and its columns of another one. run.py starts them.
 *
 * usage: group FILE
 * SPDX-License-Identifier: Apache-2.0 */
#include <safetensors/mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1024, COLUMNS = 1200, WHOLE = 3000000 };

static int rank, size, faults;

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "process %d: %s\n", rank, what);
  ++faults;
}

/* The byte at this position of the data. */
static unsigned char byte_at(uint64_t i) { return (unsigned char)(i * 31 + i / 257); }

static int32_t cancel(void *ctx, uint64_t done, uint64_t total) {
  (void)ctx;
  (void)done;
  (void)total;
  return 1;
}

int main(int argc, char **argv) {
  st_read_options options = ST_INIT(st_read_options);
  st_group group = ST_INIT(st_group);
  st_plan_stats stats = ST_INIT(st_plan_stats);
  st_error error = ST_INIT(st_error);
  MPI_Comm comm = MPI_COMM_WORLD;
  st_file *file = NULL;
  st_plan *plan = NULL;
  int64_t begin[2] = {0, 0}, end[2] = {ROWS, COLUMNS};
  unsigned char *whole = (unsigned char *)malloc(WHOLE), *part;
  uint64_t read;
  size_t columns, i;
  int given = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS || argc != 2) return 2;
  check(given >= MPI_THREAD_FUNNELED, "MPI has no threads");
  check(st_mpi_group(&comm, &group) == MPI_SUCCESS, "st_mpi_group");
  rank = (int)group.rank;
  size = (int)group.size;
  begin[1] = COLUMNS / size * rank;
  end[1] = COLUMNS / size * (rank + 1);
  columns = (size_t)(end[1] - begin[1]);
  part = (unsigned char *)malloc(ROWS * columns);
  check(st_open(argv[1], NULL, &file, &error) == ST_OK, error.message);
  check(st_plan_new(file, &plan, &error) == ST_OK, error.message);
  check(st_plan_add(plan, st_get_tensor(file, "a"), begin, end, NULL, part, ROWS * columns, &error) == ST_OK,
        error.message);
  check(st_plan_add(plan, st_get_tensor(file, "b"), NULL, NULL, NULL, whole, WHOLE, &error) == ST_OK, error.message);

  options.group = &group;
  options.exchange_bytes = 1 << 20;
  check(st_plan_run(plan, &options, &error) == ST_OK, error.message);
  for (i = 0; i < ROWS * columns; ++i)
    if (part[i] != byte_at(i / columns * COLUMNS + (uint64_t)begin[1] + i % columns)) break;
  check(i == ROWS * columns, "wrong bytes of a");
  for (i = 0; i < WHOLE; ++i)
    if (whole[i] != byte_at(ROWS * COLUMNS + i)) break;
  check(i == WHOLE, "wrong bytes of b");
  st_plan_get_stats(plan, &stats);
  read = stats.bytes_read;
  MPI_Allreduce(MPI_IN_PLACE, &read, 1, MPI_UINT64_T, MPI_SUM, comm);
  check(read >= ROWS * COLUMNS + WHOLE && read <= (ROWS * COLUMNS + WHOLE) / 100 * 102, "wrong sum of bytes read");

  if (rank == size - 1) options.progress = cancel;
  if (size > 1) check(st_plan_run(plan, &options, &error) == ST_ERR_CANCELLED, "not cancelled");
  options.progress = NULL;
  if (rank == 0) options.cache = 99;
  check(st_plan_run(plan, &options, &error) == (rank == 0 ? ST_ERR_UNSUPPORTED : ST_ERR_PEER), error.message);
  check(rank == 0 || strstr(error.message, "process 0 of the group") != NULL, error.message);

  st_plan_free(plan);
  st_free(file);
  free(part);
  free(whole);
  MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, comm);
  MPI_Finalize();
  return faults == 0 ? 0 : 1;
}
