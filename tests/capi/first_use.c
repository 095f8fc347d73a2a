/* If memory is exhausted at the first call of the library, the call returns ST_ERR_NO_MEMORY and the process continues.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <sys/wait.h>
#include <unistd.h>

#include "failing_memory.h"
#include "test.h"

#if !TEST_FAILING_MEMORY

int main(void) {
  printf("skipped: malloc cannot be replaced under a sanitizer or another C library\n");
  return 0;
}

#else

static st_status open_file(const test_bytes *file) {
  st_file *out = NULL;
  const st_status status = st_open_memory(file->data, file->size, NULL, NULL, NULL, &out, NULL);
  st_free(out);
  return status;
}

static st_status write_name(const test_bytes *file) {
  st_writer *writer = NULL;
  const uint64_t shape[] = {1};
  st_status status = st_writer_new(&writer, NULL);
  (void)file;
  if (status == ST_OK) status = st_writer_add(writer, "\xC3\xA9", ST_U8, 1, shape, "x", NULL, NULL);
  st_writer_free(writer);
  return status;
}

/* Returns the wait status of a new process that makes only this call. */
static int in_new_process(st_status (*act)(const test_bytes *), const test_bytes *file, long fails_at, int from_there) {
  int ended = 0;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    memory_arm(fails_at, from_there);
    const st_status status = act(file);
    memory_disarm();
    _exit(status == ST_OK ? 0 : status == ST_ERR_NO_MEMORY ? 1 : 2);
  }
  CHECK(child > 0 && waitpid(child, &ended, 0) == child);
  return ended;
}

static void each_allocation_fails(st_status (*act)(const test_bytes *), const test_bytes *file) {
  int from_there;
  for (from_there = 0; from_there <= 1; ++from_there) {
    char where[80];
    long at = 1;
    int ended = 0;
    do {
      ended = in_new_process(act, file, at, from_there);
      snprintf(where, sizeof where, "allocation %ld%s: wait status %d", at, from_there ? " and all after it" : "",
               ended);
      CHECK_FOR(where, WIFEXITED(ended) && WEXITSTATUS(ended) <= 1);
      ++at;
    } while (at < 1000 && !(WIFEXITED(ended) && WEXITSTATUS(ended) == 0));
    CHECK_FOR(where, at > 2 && at < 1000);
  }
}

int main(void) {
  test_bytes file = test_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
  alarm(120);
  each_allocation_fails(open_file, &file);
  each_allocation_fails(write_name, &file);
  test_release(&file);
  return test_result();
}

#endif
