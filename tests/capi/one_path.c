/* Several processes save, edit, open and fork on one path at the same time. Every open sees one state of the file: a whole
 * header that one process wrote, and its data. An edit never undoes a save.
 * usage: capi_one_path [SECONDS]: without, a second or two of a fixed number of openings.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "folder.h"

enum { READERS = 3, OPENINGS = 1500, EDITORS = 2, DATA = 20000, NOTE = 3000 };

typedef struct shared_counts {
  unsigned stop;
  uint64_t opened, refused, mixed, edited, busy, saved, undone, forked, failed;
} shared_counts;

static shared_counts *all;
static const char kPath[] = "model.safetensors";
static time_t deadline; /* 0: so many openings instead */

static void add(uint64_t *count) { __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); }
static int stopped(void) { return (int)__atomic_load_n(&all->stop, __ATOMIC_RELAXED); }

static uint64_t random_below(uint64_t *state, uint64_t below) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state % below;
}

/* ---- one state of the file ------------------------------------------------------------------------------------------- */

static void complain(const char *who, const st_error *err) { fprintf(stderr, "%s: %s\n", who, err->message); }

static void save(uint32_t generation) {
  static unsigned char data[DATA];
  static const uint64_t shape[1] = {DATA};
  char text[16];
  st_error err = ST_INIT(st_error);
  st_writer *writer = NULL;
  st_write_options options = ST_INIT(st_write_options);
  options.header_reserve = 3500;
  memset(data, (int)(generation & 0xFF), sizeof data);
  snprintf(text, sizeof text, "%" PRIu32, generation);
  const int fine = st_writer_new(&writer, &err) == ST_OK &&
                   st_writer_set_metadata(writer, "generation", text, &err) == ST_OK &&
                   st_writer_add(writer, "data", ST_U8, 1, shape, data, NULL, &err) == ST_OK &&
                   st_writer_add(writer, "generation", ST_U32, 0, NULL, &generation, NULL, &err) == ST_OK &&
                   st_writer_begin(writer, kPath, &options, &err) == ST_OK && st_writer_finish(writer, &err) == ST_OK;
  st_writer_free(writer);
  if (!fine) complain("saving", &err);
  add(fine ? &all->saved : &all->failed);
}

/* A note is its letter repeated, as often as its first four digits say. */
static int is_whole_note(const char *note, size_t len) {
  size_t i;
  if (len < 5 || strtoul((char[5]){note[0], note[1], note[2], note[3], 0}, NULL, 10) != len) return 0;
  for (i = 5; i < len && note[i] == note[4]; ++i) {}
  return i == len;
}

/* The generation of the file at the path, or 0 if no process wrote this state. */
static uint32_t look(st_io io) {
  static unsigned char data[DATA];
  uint32_t generation = 0;
  char text[16];
  size_t len = 0, i;
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  const st_open_options options = test_mode(io);
  if (st_open(kPath, &options, &file, &err) != ST_OK) {
    complain("opening", &err);
    add(&all->refused);
    return 0;
  }
  add(&all->opened);
  const char *const note = st_get_metadata(file, "note", &len);
  int whole = note == NULL || is_whole_note(note, len);
  const st_tensor *const number = st_get_tensor(file, "generation"), *const tensor = st_get_tensor(file, "data");
  whole = whole && number != NULL && tensor != NULL && st_tensor_read(number, &generation, 4, NULL) == ST_OK &&
          st_tensor_read(tensor, data, sizeof data, NULL) == ST_OK;
  for (i = 0; whole && i < sizeof data; ++i) whole = data[i] == (generation & 0xFF);
  snprintf(text, sizeof text, "%" PRIu32, generation);
  const char *const said = st_get_metadata(file, "generation", NULL);
  whole = whole && said != NULL && strcmp(said, text) == 0;
  if (!whole) add(&all->mixed);
  st_free(file);
  return whole ? generation : 0;
}

/* Mostly with a value whose length fits in place. */
static void edit(uint64_t *random) {
  static char note[2 * NOTE + 1];
  const char *const keys[] = {"note"};
  const char *values[] = {note};
  st_error err = ST_INIT(st_error);
  const size_t len = 5 + (size_t)random_below(random, random_below(random, 50) == 0 ? 2 * NOTE - 5 : NOTE - 5);
  const char letter = (char)('a' + (int)random_below(random, 26));
  snprintf(note, sizeof note, "%04zu", len);
  memset(note + 4, letter, len - 4);
  note[len] = '\0';
  if (random_below(random, 20) == 0) values[0] = NULL;
  const st_status status = st_edit_metadata(kPath, keys, values, 1, NULL, &err);
  if (status != ST_OK && status != ST_ERR_STATE) complain("editing", &err);
  add(status == ST_OK ? &all->edited : status == ST_ERR_STATE ? &all->busy : &all->failed);
}

/* ---- the processes ----------------------------------------------------------------------------------------------------- */

static void read_again_and_again(unsigned number) {
  unsigned i;
  for (i = 0; deadline != 0 ? !stopped() : i < OPENINGS; ++i) look(i % 2 == number % 2 ? ST_IO_MAP : ST_IO_READ);
}

static void edit_again_and_again(unsigned number) {
  uint64_t random = 88172645463325252u + number;
  while (!stopped()) edit(&random);
}

/* The only process that saves: its last save must be the state of the file. */
static void save_again_and_again(unsigned number) {
  uint32_t generation;
  (void)number;
  for (generation = 2; !stopped(); ++generation) {
    const struct timespec pause = {0, 3000000};
    save(generation);
    if (look(ST_IO_READ) != generation) add(&all->undone);
    nanosleep(&pause, NULL);
    if (look(ST_IO_MAP) != generation) add(&all->undone);
  }
}

static void *fork_again_and_again(void *unused) {
  (void)unused;
  while (!stopped()) {
    const struct timespec life = {0, 2000000};
    const pid_t pid = fork();
    if (pid == 0) {
      nanosleep(&life, NULL);
      _exit(0);
    }
    if (pid > 0 && waitpid(pid, NULL, 0) == pid) add(&all->forked);
  }
  return NULL;
}

/* Its children inherit the descriptors that an edit has open at that moment. */
static void edit_and_fork(unsigned number) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, fork_again_and_again, NULL) != 0) abort();
  edit_again_and_again(number);
  pthread_join(thread, NULL);
}

static pid_t start(void (*body)(unsigned), unsigned number) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  body(number);
  _exit(0);
}

static void wait_for(const pid_t *pids, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    int status = -1;
    while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {}
    CHECK(status == 0);
  }
}

int main(int argc, char **argv) {
  pid_t readers[READERS], others[EDITORS + 2];
  unsigned i;
  if (argc > 1)
    deadline = time(NULL) + atol(argv[1]);
  else
    alarm(120);
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) abort();
  test_enter_folder();
  save(1);
  for (i = 0; i < EDITORS; ++i) others[i] = start(edit_again_and_again, i);
  others[EDITORS] = start(edit_and_fork, EDITORS);
  others[EDITORS + 1] = start(save_again_and_again, 0);
  for (i = 0; i < READERS; ++i) readers[i] = start(read_again_and_again, i);
  while (deadline != 0 && time(NULL) < deadline) sleep(1);
  if (deadline != 0) __atomic_store_n(&all->stop, 1, __ATOMIC_RELAXED);
  wait_for(readers, READERS);
  __atomic_store_n(&all->stop, 1, __ATOMIC_RELAXED);
  wait_for(others, EDITORS + 2);
  printf("%" PRIu64 " openings: %" PRIu64 " refused, %" PRIu64 " mixed; %" PRIu64 " saves: %" PRIu64 " undone; %" PRIu64
         " edits, %" PRIu64 " while another ran; %" PRIu64 " forks; %" PRIu64 " failures\n",
         all->opened, all->refused, all->mixed, all->saved, all->undone, all->edited, all->busy, all->forked,
         all->failed);
  CHECK(all->refused == 0 && all->mixed == 0 && all->failed == 0);
  if (ST_LINUX_IO) {
    CHECK(all->undone == 0);
  } else {
    printf("skipped: saves that an edit undoes, which only locks of open files prevent\n");
  }
  CHECK(all->opened > 0 && all->saved > 1 && all->edited > 0 && all->forked > 0);
  test_leave_folder();
  return test_result();
}
