/* Groups: several processes run plans over one checkpoint. The processes are threads here, each with its own st_file.
 * tests/core/group_read_test.cpp has more kinds of plans, errors and cancels.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <pthread.h>

#include "failing_memory.h"
#include "test.h"

enum { MOST = 4, ROWS = 2048, COLUMNS = 512, DATA = ROWS * COLUMNS * 4 };

/* ---- collective operations of threads ---- */

typedef struct member {
  uint64_t *values;
  uint64_t result[65536];
  const char *send;
  const int32_t *counts;
  const int32_t *offsets;
} member;

typedef struct team {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  uint32_t size;
  uint32_t waiting;
  unsigned round;
  member members[MOST];
} team;

typedef struct process {
  team *of;
  uint32_t rank;
  const test_bytes *bytes; /* of the file */
  uint64_t read;           /* bytes that its source has read for the plan */
  int fails;               /* Its source fails.                           */
  st_read_options options;
  int without_plan;
  int adds_nothing;
  long memory_fails_at; /* in all processes, this allocation of a run; 0: none */
  int32_t returns;      /* by its alltoallv */
  int32_t list_bytes;   /* the length of the list of process 1; 0: the right one */
  uint32_t delivers;    /* the length of the second range in this list; 0: the right one */
  unsigned exchanges;   /* calls of its alltoallv */
  char *dst;
  st_status status;
  st_error error;
  st_plan_stats stats;
} process;

static void meet(team *of) {
  unsigned round;
  pthread_mutex_lock(&of->mutex);
  round = of->round;
  if (++of->waiting == of->size) {
    of->waiting = 0;
    ++of->round;
    pthread_cond_broadcast(&of->changed);
  }
  while (round == of->round) pthread_cond_wait(&of->changed, &of->mutex);
  pthread_mutex_unlock(&of->mutex);
}

static int32_t allreduce(void *ctx, st_reduce op, uint64_t *values, size_t n) {
  process *self = (process *)ctx;
  team *of = self->of;
  uint64_t *result = of->members[self->rank].result;
  uint32_t r;
  size_t i;
  of->members[self->rank].values = values;
  meet(of);
  for (i = 0; i < n; ++i) {
    result[i] = of->members[0].values[i];
    for (r = 1; r < of->size; ++r) {
      const uint64_t value = of->members[r].values[i];
      if (op == ST_REDUCE_SUM) result[i] += value;
      if (op == ST_REDUCE_MIN && value < result[i]) result[i] = value;
      if (op == ST_REDUCE_MAX && value > result[i]) result[i] = value;
    }
  }
  meet(of);
  memcpy(values, result, n * sizeof(*values));
  return 0;
}

static int32_t alltoallv(void *ctx, const void *send, const int32_t *send_counts, const int32_t *send_offsets,
                         void *recv, const int32_t *recv_counts, const int32_t *recv_offsets) {
  process *self = (process *)ctx;
  team *of = self->of;
  uint32_t r;
  of->members[self->rank].send = (const char *)send;
  of->members[self->rank].counts = send_counts;
  of->members[self->rank].offsets = send_offsets;
  meet(of);
  for (r = 0; r < of->size; ++r) {
    const member *from = &of->members[r];
    CHECK(from->counts[self->rank] == recv_counts[r]);
    if (recv_counts[r] > 0)
      memcpy((char *)recv + recv_offsets[r], from->send + from->offsets[self->rank], (size_t)recv_counts[r]);
  }
  meet(of);
  /* The first call delivers the lengths of lists, and the second the lists: here a count, a position and a length
   * for each block. */
  if (++self->exchanges == 1 && self->list_bytes != 0)
    memcpy((char *)recv + recv_offsets[1], &self->list_bytes, sizeof(self->list_bytes));
  if (self->exchanges == 2 && self->delivers != 0) {
    CHECK(recv_counts[1] >= 24);
    memcpy((char *)recv + recv_offsets[1] + 20, &self->delivers, 4);
  }
  return self->returns;
}

/* ---- one process ---- */

static st_status run_with_memory(process *self, st_plan *plan) {
#if TEST_FAILING_MEMORY
  if (self->memory_fails_at != 0) {
    st_status status;
    meet(self->of);
    if (self->rank == 0) memory_arm(self->memory_fails_at, 0);
    meet(self->of);
    status = st_plan_run(plan, &self->options, &self->error);
    meet(self->of);
    memory_disarm();
    return status;
  }
#endif
  return st_plan_run(plan, &self->options, &self->error);
}

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  process *self = (process *)ctx;
  if (self->fails) return 5;
  memcpy(dst, self->bytes->data + offset, n);
  self->read += n;
  return 0;
}

/* Half of the rows for each of two neighbouring processes, so each row is wanted by several. */
static void run(process *self, int fails) {
  st_source source = ST_INIT(st_source);
  st_file *file = NULL;
  st_plan *plan = NULL;
  const int64_t begin[] = {self->rank % 2 == 0 ? 0 : ROWS / 4, 0};
  const int64_t end[] = {self->rank % 2 == 0 ? ROWS / 2 : ROWS, COLUMNS};
  const size_t size = (size_t)(end[0] - begin[0]) * COLUMNS * 4;
  source.ctx = self;
  source.size = self->bytes->size;
  source.read_at = read_at;
  self->fails = 0;
  self->error = ST_INIT(st_error);
  self->stats = ST_INIT(st_plan_stats);
  self->dst = (char *)test_alloc(size);
  CHECK(st_open_source(&source, NULL, &file, &self->error) == ST_OK);
  CHECK(st_plan_new(file, &plan, &self->error) == ST_OK);
  if (!self->adds_nothing)
    CHECK(st_plan_add(plan, st_get_tensor(file, "w"), begin, end, NULL, self->dst, size, &self->error) == ST_OK);
  self->read = 0;
  self->fails = fails;
  self->status = run_with_memory(self, self->without_plan ? NULL : plan);
  st_plan_get_stats(plan, &self->stats);
  if (self->status == ST_OK && !self->adds_nothing) {
    const size_t at = self->bytes->size - DATA + (size_t)begin[0] * COLUMNS * 4;
    CHECK(memcmp(self->dst, self->bytes->data + at, size) == 0);
    CHECK(st_plan_is_complete(plan, 0) == 1);
  }
  free(self->dst);
  st_plan_free(plan);
  st_free(file);
}

static void *run_well(void *process_of) {
  run((process *)process_of, 0);
  return NULL;
}

static void *run_and_fail(void *process_of) {
  run((process *)process_of, 1);
  return NULL;
}

/* Runs all processes. failing: the rank whose source fails, or the size of the group. */
static void run_all(process *processes, uint32_t size, uint32_t failing) {
  pthread_t threads[MOST];
  uint32_t r;
  for (r = 0; r < size; ++r)
    CHECK(pthread_create(&threads[r], NULL, r == failing ? run_and_fail : run_well, &processes[r]) == 0);
  for (r = 0; r < size; ++r) pthread_join(threads[r], NULL);
}

static team *new_team(uint32_t size) {
  team *made = (team *)calloc(1, sizeof(*made));
  if (made == NULL) abort();
  made->size = size;
  pthread_mutex_init(&made->mutex, NULL);
  pthread_cond_init(&made->changed, NULL);
  return made;
}

static void free_team(team *of) {
  pthread_cond_destroy(&of->changed);
  pthread_mutex_destroy(&of->mutex);
  free(of);
}

static void set_up(process *processes, st_group *groups, team *of, const test_bytes *bytes) {
  uint32_t r;
  memset(processes, 0, MOST * sizeof(*processes));
  for (r = 0; r < of->size; ++r) {
    processes[r].of = of;
    processes[r].rank = r;
    processes[r].bytes = bytes;
    groups[r] = ST_INIT(st_group);
    groups[r].ctx = &processes[r];
    groups[r].rank = r;
    groups[r].size = of->size;
    groups[r].allreduce = allreduce;
    groups[r].alltoallv = alltoallv;
    processes[r].options = ST_INIT(st_read_options);
    processes[r].options.group = &groups[r];
    processes[r].options.threads = 1;
    processes[r].options.exchange_bytes = 1 << 20;
  }
}

static void check_peers(const process *processes, uint32_t size, uint32_t failed, st_status status,
                        st_status of_others) {
  char named[64];
  uint32_t r;
  snprintf(named, sizeof(named), "process %u of the group failed with %s", (unsigned)failed, st_status_name(status));
  for (r = 0; r < size; ++r) {
    CHECK_FOR(processes[r].error.message, processes[r].status == (r == failed ? status : of_others));
    CHECK_FOR(processes[r].error.message, r == failed || strstr(processes[r].error.message, named) != NULL);
  }
}

static void test_groups(const test_bytes *bytes) {
  process processes[MOST];
  st_group groups[MOST];
  uint32_t size, failed, r;
  for (size = 1; size <= MOST; ++size) {
    team *of = new_team(size);
    uint64_t read = 0, sent = 0;
    set_up(processes, groups, of, bytes);
    processes[2].adds_nothing = size > 2;
    run_all(processes, size, size);
    for (r = 0; r < size; ++r) {
      CHECK_FOR(processes[r].error.message, processes[r].status == ST_OK);
      CHECK(processes[r].stats.bytes_read == processes[r].read);
      CHECK((processes[r].stats.exchange_bytes > 0) == (size > 1));
      CHECK(processes[r].stats.exchange_bytes <= 2 << 20);
      CHECK((processes[r].stats.bytes_sent > 0) == (size > 1));
      read += processes[r].read;
      sent += processes[r].stats.bytes_sent - processes[r].stats.bytes_received;
    }
    CHECK(sent == 0); /* all of it was received */
    CHECK(read == (size == 1 ? DATA / 2 : DATA));

    for (failed = 0; failed < size && size > 1; ++failed) {
      set_up(processes, groups, of, bytes);
      run_all(processes, size, failed);
      check_peers(processes, size, failed, ST_ERR_CALLBACK, ST_ERR_PEER);

      set_up(processes, groups, of, bytes);
      processes[failed].options.cache = 99;
      run_all(processes, size, size);
      check_peers(processes, size, failed, ST_ERR_UNSUPPORTED, ST_ERR_PEER);

      set_up(processes, groups, of, bytes);
      processes[failed].without_plan = 1;
      run_all(processes, size, size);
      check_peers(processes, size, failed, ST_ERR_ARGUMENT, ST_ERR_PEER);
    }
    free_team(of);
  }
}

static void test_different_checkpoints(const test_bytes *bytes) {
  process processes[MOST];
  st_group groups[MOST];
  test_bytes other = *bytes;
  team *of = new_team(3);
  uint32_t r;
  other.data = (unsigned char *)test_alloc(other.size);
  memcpy(other.data, bytes->data, other.size);
  memcpy(strstr((char *)other.data + 8, "F32"), "I32", 3);
  set_up(processes, groups, of, bytes);
  processes[1].bytes = &other;
  run_all(processes, 3, 3);
  for (r = 0; r < 3; ++r) {
    CHECK_FOR(processes[r].error.message, processes[r].status == ST_ERR_STATE);
    CHECK(processes[r].read == 0);
  }
  test_release(&other);
  free_team(of);
}

static void test_failing_operations(const test_bytes *bytes) {
  process processes[MOST];
  st_group groups[MOST];
  team *of = new_team(2);
  uint32_t r;
  set_up(processes, groups, of, bytes);
  processes[0].returns = processes[1].returns = -3;
  run_all(processes, 2, 2);
  for (r = 0; r < 2; ++r) {
    CHECK_FOR(processes[r].error.message, processes[r].status == ST_ERR_CALLBACK);
    CHECK(strstr(processes[r].error.message, "alltoallv returned -3") != NULL);
  }
  free_team(of);
}

/* Lengths that no list has: half a number, more than all blocks need, negative. */
static void test_invalid_lists(const test_bytes *bytes) {
  static const int32_t kLengths[] = {6, 1 << 20, -4};
  size_t i;
  for (i = 0; i < sizeof(kLengths) / sizeof(*kLengths); ++i) {
    process processes[MOST];
    st_group groups[MOST];
    team *of = new_team(2);
    char words[64];
    uint32_t r;
    snprintf(words, sizeof(words), "delivered %d as the length of a list", (int)kLengths[i]);
    set_up(processes, groups, of, bytes);
    processes[0].list_bytes = processes[1].list_bytes = kLengths[i];
    run_all(processes, 2, 2);
    for (r = 0; r < 2; ++r) {
      CHECK_FOR(processes[r].error.message, processes[r].status == ST_ERR_CALLBACK);
      CHECK_FOR(processes[r].error.message, strstr(processes[r].error.message, words) != NULL);
    }
    free_team(of);
  }
}

/* The sum of both lengths is not an int32_t. */
static void test_huge_range(const test_bytes *bytes) {
  process processes[MOST];
  st_group groups[MOST];
  team *of = new_team(2);
  set_up(processes, groups, of, bytes);
  processes[0].options.exchange_bytes = processes[1].options.exchange_bytes = 16 << 20; /* several blocks in a round */
  processes[0].delivers = INT32_MAX;
  run_all(processes, 2, 2);
  check_peers(processes, 2, 0, ST_ERR_CALLBACK, ST_ERR_PEER);
  CHECK(strstr(processes[0].error.message, "delivered an invalid list of process 1") != NULL);
  free_team(of);
}

#if TEST_FAILING_MEMORY
/* If one process runs out of memory at any point, the others return. */
static void test_lack_of_memory(const test_bytes *bytes) {
  process processes[MOST];
  st_group groups[MOST];
  team *of = new_team(2);
  long call, failures = 0;
  for (call = 1; call == 1 || memory_calls >= call; call += 1 + call / 50) {
    uint32_t failed;
    set_up(processes, groups, of, bytes);
    processes[0].memory_fails_at = processes[1].memory_fails_at = call;
    processes[0].options.threads = processes[1].options.threads = call % 2 == 0 ? 1 : 2;
    run_all(processes, 2, 2);
    failed = processes[0].status == ST_ERR_NO_MEMORY ? 0 : processes[1].status == ST_ERR_NO_MEMORY ? 1 : 2;
    if (failed == 2) {
      CHECK_FOR(processes[0].error.message, processes[0].status == ST_OK);
      CHECK_FOR(processes[1].error.message, processes[1].status == ST_OK);
    } else {
      check_peers(processes, 2, failed, ST_ERR_NO_MEMORY, ST_ERR_PEER);
      ++failures;
    }
  }
  CHECK(failures > 50);
  free_team(of);
}

/* The message of a wrong option needs memory. */
static void test_wrong_option_without_memory(const test_bytes *bytes) {
  process processes[MOST];
  st_group groups[MOST];
  team *of = new_team(2);
  long call;
  for (call = 1; call < 8; ++call) {
    set_up(processes, groups, of, bytes);
    processes[1].options.cache = 99;
    processes[0].memory_fails_at = processes[1].memory_fails_at = call;
    run_all(processes, 2, 2);
    CHECK(processes[1].status == ST_ERR_NO_MEMORY || processes[1].status == ST_ERR_UNSUPPORTED);
    CHECK(processes[0].status == ST_ERR_NO_MEMORY || processes[0].status == ST_ERR_PEER);
  }
  free_team(of);
}
#endif

static int32_t failing_allreduce(void *ctx, st_reduce op, uint64_t *values, size_t n) {
  (void)ctx, (void)op, (void)values, (void)n;
  return 1;
}

/* Only a valid group's function is called. */
static void test_invalid_groups(const test_bytes *bytes) {
  process alone;
  st_group group = ST_INIT(st_group);
  team *of = new_team(1);
  memset(&alone, 0, sizeof(alone));
  alone.of = of;
  alone.bytes = bytes;
  alone.options = ST_INIT(st_read_options);
  alone.options.threads = 1; /* read_at() counts without a lock */
  alone.options.group = &group;
  run(&alone, 0);
  CHECK_FOR("rank 0 of 0", alone.status == ST_ERR_ARGUMENT);
  group.size = 2;
  group.alltoallv = alltoallv;
  run(&alone, 0);
  CHECK_FOR("no allreduce", alone.status == ST_ERR_ARGUMENT);
  group.alltoallv = NULL;
  group.allreduce = allreduce;
  run(&alone, 0);
  CHECK_FOR("no alltoallv", alone.status == ST_ERR_ARGUMENT);
  group.alltoallv = alltoallv;
  group.rank = 2;
  run(&alone, 0);
  CHECK_FOR("rank 2 of 2", alone.status == ST_ERR_ARGUMENT);
  group.size = 8192;
  run(&alone, 0);
  CHECK_FOR("too many", alone.status == ST_ERR_UNSUPPORTED);
  group.size = 8191;
  group.allreduce = failing_allreduce;
  run(&alone, 0);
  CHECK_FOR("as many as possible", alone.status == ST_ERR_CALLBACK);
  group.size = 3;
  group.flags = 1;
  run(&alone, 0);
  CHECK_FOR("flags", alone.status == ST_ERR_UNSUPPORTED);
  group.flags = 0;
  group.struct_size = 8;
  run(&alone, 0);
  CHECK_FOR("struct_size", alone.status == ST_ERR_STRUCT_SIZE);
  group = ST_INIT(st_group);
  group.size = 1;
  run(&alone, 0);
  CHECK_FOR("alone without functions", alone.status == ST_OK);
  free_team(of);
}

int main(void) {
  test_bytes bytes = test_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[2048,512],\"data_offsets\":[0,4194304]}}", DATA);
  size_t i;
  for (i = bytes.size - DATA; i < bytes.size; ++i) bytes.data[i] = (unsigned char)(i * 31 + i / 257);
  test_groups(&bytes);
  test_different_checkpoints(&bytes);
  test_failing_operations(&bytes);
  test_invalid_lists(&bytes);
  test_huge_range(&bytes);
  test_invalid_groups(&bytes);
#if TEST_FAILING_MEMORY
  test_lack_of_memory(&bytes);
  test_wrong_option_without_memory(&bytes);
#endif
  test_release(&bytes);
  return test_result();
}
