/* Measures one way in which the processes of MPI_COMM_WORLD read their parts of a file. run.py starts it.
 *
 * usage: group FILE CONTENTS WAY PLAN     CONTENTS: the same file, at full speed, to compare with
 * WAY   group, each (without a group), one (only rank 0 reads, and only its part), mpiio (MPI_File_read_all)
 * PLAN  replicated, columns, rows, mixed, disjoint; mpiio: only replicated
 * SPDX-License-Identifier: Apache-2.0 */
#include <safetensors/mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "process %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The part of a matrix that this process wants. */
typedef struct part {
  int64_t begin[2], end[2];
  unsigned char *bytes;
  size_t size;
} part;

/* As tensor parallelism splits weights of [out, in]: columns splits `out`, and rows splits `in`. */
static part wanted(const char *plan, size_t number, const uint64_t *dims) {
  const int64_t shape[] = {(int64_t)dims[0], (int64_t)dims[1]};
  part own = {{0, 0}, {shape[0], shape[1]}, NULL, 0};
  size_t kind = 2;
  if (strcmp(plan, "columns") == 0) kind = 0;
  if (strcmp(plan, "rows") == 0) kind = 1;
  if (strcmp(plan, "mixed") == 0) kind = number % 3;
  if (kind < 2) {
    own.begin[kind] = shape[kind] * rank / size;
    own.end[kind] = shape[kind] * (rank + 1) / size;
  } else if (strcmp(plan, "disjoint") == 0 && number % (size_t)size != (size_t)rank) {
    own.end[0] = 0;
  }
  own.size = (size_t)((own.end[0] - own.begin[0]) * (own.end[1] - own.begin[1]));
  return own;
}

/* Memory of this process in KiB, as the kernel counts it. */
static long memory(const char *what) {
  char line[200];
  long found = 0;
  FILE *const status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof(line), status) != NULL)
    if (strncmp(line, what, strlen(what)) == 0) found = atol(line + strlen(what));
  if (status != NULL) fclose(status);
  return found;
}

static void forget_peak(void) {
  FILE *const file = fopen("/proc/self/clear_refs", "w");
  if (file == NULL) return;
  fputs("5", file);
  fclose(file);
}

static void read_by_mpi(const char *path, uint64_t begin, const part *parts, size_t n) {
  MPI_File file;
  size_t i;
  require(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS, "MPI_File_open");
  /* The parts are whole matrices, which follow one another in memory and in the file. A call takes less than 2 GiB. */
  for (i = 0; i < n; i += 16) {
    const size_t count = n - i < 16 ? n - i : 16;
    require(MPI_File_read_at_all(file, (MPI_Offset)(begin + i * parts[0].size), parts[i].bytes,
                                 (int)(count * parts[0].size), MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS,
            "MPI_File_read_at_all");
  }
  MPI_File_close(&file);
}

int main(int argc, char **argv) {
  MPI_Comm comm = MPI_COMM_WORLD;
  st_error error = ST_INIT(st_error);
  st_read_options options = ST_INIT(st_read_options);
  st_group group = ST_INIT(st_group);
  st_plan_stats stats = ST_INIT(st_plan_stats);
  st_file *file = NULL, *contents = NULL;
  st_plan *plan = NULL;
  part *parts;
  unsigned char *all;
  size_t n, i, at = 0;
  long before, peak;
  double began, seconds;
  uint64_t sums[2];
  int given, reads;
  require(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given) == MPI_SUCCESS && argc == 5, "usage");
  require(st_mpi_group(&comm, &group) == MPI_SUCCESS, "st_mpi_group");
  rank = (int)group.rank;
  size = (int)group.size;
  require(st_open(argv[1], NULL, &file, &error) == ST_OK, error.message);
  require(st_open(argv[2], NULL, &contents, &error) == ST_OK, error.message);
  require(st_plan_new(file, &plan, &error) == ST_OK, error.message);
  n = st_count_tensors(file);
  parts = (part *)calloc(n, sizeof(part));
  reads = strcmp(argv[3], "one") != 0 || rank == 0;
  for (i = 0; i < n; ++i) {
    parts[i] = wanted(argv[4], i, st_tensor_shape(st_get_tensor_at(file, i)));
    at += parts[i].size;
  }
  all = (unsigned char *)malloc(at + 1);
  memset(all, 1, at + 1);
  for (i = 0, at = 0; i < n; ++i) {
    parts[i].bytes = all + at;
    at += parts[i].size;
    if (reads && parts[i].size != 0)
      require(st_plan_add(plan, st_get_tensor_at(file, i), parts[i].begin, parts[i].end, NULL, parts[i].bytes,
                          parts[i].size, &error) == ST_OK,
              error.message);
  }
  if (strcmp(argv[3], "group") == 0) options.group = &group;

  forget_peak();
  before = memory("VmRSS:");
  MPI_Barrier(comm);
  began = MPI_Wtime();
  if (strcmp(argv[3], "mpiio") == 0) {
    read_by_mpi(argv[1], st_tensor_offset(st_get_tensor_at(file, 0)), parts, n);
  } else if (reads) {
    require(st_plan_run(plan, &options, &error) == ST_OK, error.message);
  }
  MPI_Barrier(comm);
  seconds = MPI_Wtime() - began;
  peak = memory("VmHWM:") - before;
  st_plan_get_stats(plan, &stats);

  for (i = 0; i < n && reads; ++i) {
    const unsigned char *const tensor = (const unsigned char *)st_tensor_data(st_get_tensor_at(contents, i));
    const uint64_t *const shape = st_tensor_shape(st_get_tensor_at(file, i));
    const size_t columns = (size_t)(parts[i].end[1] - parts[i].begin[1]);
    int64_t row;
    for (row = parts[i].begin[0]; row < parts[i].end[0]; ++row)
      require(memcmp(parts[i].bytes + (size_t)(row - parts[i].begin[0]) * columns,
                     tensor + (uint64_t)row * shape[1] + (uint64_t)parts[i].begin[1], columns) == 0,
              "wrong bytes");
  }
  sums[0] = stats.bytes_read;
  sums[1] = stats.bytes_sent;
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, comm);
  MPI_Allreduce(MPI_IN_PLACE, &peak, 1, MPI_LONG, MPI_MAX, comm);
  if (rank == 0)
    printf(
        "{\"seconds\": %.4f, \"bytes_read\": %llu, \"bytes_sent\": %llu, \"peak_mib\": %.1f, \"exchange_mib\": %.1f}\n",
        seconds, (unsigned long long)sums[0], (unsigned long long)sums[1], (double)peak / 1024,
        (double)stats.exchange_bytes / 1048576);
  st_plan_free(plan);
  st_free(file);
  st_free(contents);
  free(parts);
  free(all);
  MPI_Finalize();
  return 0;
}
