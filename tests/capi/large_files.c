/* Opening files larger than memory and the free address space takes time and memory for the header only. The files are
 * sparse: they contain a header, a few bytes at their end, and a hole.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "folder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* a sanitizer needs its own terabytes of addresses */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

static const uint64_t kGB = 1000000000u;
static const uint64_t kTiB = (uint64_t)1 << 40;
static int skipped;

/* 'body' of this size, and 'tail' of four bytes, 1 2 3 4. Returns 0 if the filesystem refuses a file of that size. */
static int make_sparse(const char *path, uint64_t body) {
  char header[300];
  unsigned char length[8];
  static const unsigned char kTail[] = {1, 2, 3, 4};
  size_t n, i;
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  n = (size_t)snprintf(header, sizeof header,
                       "{\"body\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "],\"data_offsets\":[0,%" PRIu64
                       "]},"
                       "\"tail\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}}",
                       body, body, body, body + 4);
  for (i = 0; i < 8; ++i) length[i] = (unsigned char)((uint64_t)n >> (8 * i));
  const off_t end = (off_t)(8 + n + body + 4);
  const int made = ftruncate(fd, end) == 0 && pwrite(fd, kTail, 4, end - 4) == 4 && pwrite(fd, length, 8, 0) == 8 &&
                   pwrite(fd, header, n, 8) == (ssize_t)n;
  if (!made) {
    printf("skipped: a file of %" PRIu64 " bytes: %s\n", (uint64_t)end, strerror(errno));
    ++skipped;
  }
  close(fd);
  return made;
}

static void look_at_both_ends(const st_file *file, const char *mode, int mapped) {
  const st_tensor *body = st_get_tensor(file, "body");
  const st_tensor *tail = st_get_tensor(file, "tail");
  unsigned char read[4] = {9, 9, 9, 9};
  CHECK_FOR(mode, st_tensor_read(tail, read, sizeof read, NULL) == ST_OK && read[0] == 1 && read[3] == 4);
  CHECK_FOR(mode, (st_tensor_data(body) != NULL) == mapped);
  if (!mapped) return;
  const unsigned char *view = st_tensor_data(body);
  CHECK_FOR(mode, view[0] == 0 && view[st_tensor_bytes(body) / 2] == 0 && view[st_tensor_bytes(body) + 3] == 4);
}

static void opens_in_every_mode(const char *path) {
  st_io io;
  for (io = ST_IO_AUTO; io <= ST_IO_READ; ++io) {
    if (io == ST_IO_COPY && !ST_LINUX_IO) continue; /* a copy needs memory for all of it */
    const st_open_options options = test_mode(io);
    st_error err = ST_INIT(st_error);
    st_file *out = NULL;
    CHECK_FOR(err.message, st_open(path, &options, &out, &err) == ST_OK);
    if (out == NULL) {
      fprintf(stderr, "  %s: %s\n", kModes[io], err.message);
      continue;
    }
    look_at_both_ends(out, kModes[io], st_tensor_data(st_get_tensor(out, "tail")) != NULL);
    CHECK_FOR(kModes[io],
              io == ST_IO_AUTO || (io == ST_IO_READ) == (st_tensor_data(st_get_tensor(out, "tail")) == NULL));
    st_free(out);
  }
}

static void fifteen_tebibytes(void) {
  if (make_sparse("15TiB.safetensors", 15 * kTiB)) opens_in_every_mode("15TiB.safetensors");
  unlink("15TiB.safetensors");
}

/* More than the memory of any test machine: reserving it would fail. */
static void views_may_be_written_to_and_the_file_stays(void) {
  const st_open_options options = test_mode(ST_IO_COPY);
  st_file *out = NULL;
  unsigned char read[4] = {9, 9, 9, 9};
  if (!make_sparse("100GB.safetensors", 100 * kGB)) return;
  opens_in_every_mode("100GB.safetensors");
  if (!ST_LINUX_IO) {
    printf("skipped: copies of large files, which need memory for all of them in this build\n");
    unlink("100GB.safetensors");
    return;
  }
  CHECK(st_open("100GB.safetensors", &options, &out, NULL) == ST_OK);
  const st_tensor *tail = st_get_tensor(out, "tail");
  unsigned char *view = (unsigned char *)(uintptr_t)st_tensor_data(tail);
  view[0] = 77;
  ((unsigned char *)(uintptr_t)st_tensor_data(st_get_tensor(out, "body")))[50 * kGB] = 77;
  CHECK(((const unsigned char *)st_tensor_data(tail))[0] == 77);
  st_tensor_advise(&tail, 1, ST_ADVICE_DONT_NEED);
  CHECK(view[0] == 77); /* advice does not discard writes */
  const int fd = open("100GB.safetensors", O_RDONLY);
  CHECK(pread(fd, read, 4, (off_t)st_tensor_offset(tail)) == 4 && read[0] == 1);
  close(fd);
  st_free(out);
  unlink("100GB.safetensors");
}

static int limit_addresses(uint64_t bytes) {
  const struct rlimit limit = {bytes, bytes};
  return setrlimit(RLIMIT_AS, &limit);
}

/* In its own process, since a limit cannot be raised again. */
static void without_addresses_for_a_mapping(void) {
  int status = -1;
  if (SANITIZED || !make_sparse("10GB.safetensors", 10 * kGB)) return;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    const st_open_options map = test_mode(ST_IO_MAP), copy = test_mode(ST_IO_COPY), read = test_mode(ST_IO_READ);
    st_error err = ST_INIT(st_error);
    st_file *out = NULL;
    CHECK(limit_addresses(kGB) == 0);
    CHECK(st_open("10GB.safetensors", &map, &out, &err) == ST_ERR_MAP && err.os_error == ENOMEM && out == NULL);
    CHECK_FOR(err.message, strstr(err.message, "10000000") != NULL);
    CHECK(st_open("10GB.safetensors", &copy, &out, &err) == ST_ERR_MAP && out == NULL);
    CHECK(st_open("10GB.safetensors", &read, &out, NULL) == ST_OK);
    look_at_both_ends(out, "READ", 0);
    st_free(out);
    out = NULL;
    CHECK(st_open("10GB.safetensors", NULL, &out, NULL) == ST_OK); /* AUTO reads where it may not map */
    look_at_both_ends(out, "AUTO", 0);
    st_free(out);
    fflush(NULL);
    _exit(test_result());
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  unlink("10GB.safetensors");
}

/* The header has 100 MB, the file is long enough, and the memory is not available. */
static void without_memory_for_the_header(void) {
  static const unsigned char kLength[8] = {0x00, 0xE1, 0xF5, 0x05, 0, 0, 0, 0};
  int status = -1;
  if (SANITIZED) return;
  const int fd = open("header.safetensors", O_RDWR | O_CREAT, 0600);
  CHECK(ftruncate(fd, 200000000) == 0 && pwrite(fd, kLength, 8, 0) == 8 && pwrite(fd, "{", 1, 8) == 1);
  close(fd);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    st_error err = ST_INIT(st_error);
    st_file *out = NULL;
    CHECK(limit_addresses(60000000) == 0);
    CHECK(st_open("header.safetensors", NULL, &out, &err) == ST_ERR_NO_MEMORY && out == NULL && err.message[0] != '\0');
    fflush(NULL);
    _exit(test_result());
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  unlink("header.safetensors");
}

int main(void) {
  alarm(120);
  test_enter_folder();
  fifteen_tebibytes();
  views_may_be_written_to_and_the_file_stays();
  without_addresses_for_a_mapping();
  without_memory_for_the_header();
  test_leave_folder();
  return test_result();
}
