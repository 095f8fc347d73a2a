// Disturbs the command. ST_INTERFERENCE says how:
//   reads    data read by position from *.safetensors has a wrong byte, as from a damaged disk
//   index    another process creates the new *.index.json first
//   shard    another process creates the second *.safetensors first
//   signal   SIGINT arrives as soon as the second *.safetensors has appeared
//   shard+signal  SIGINT arrives when another process has created the second *.safetensors
//   names    O_TMPFILE is not supported, as on NFS
//   time     the monotonic clock advances by a fifth of a second at each reading
//   threads  no thread can be started
//   overwrite  another program changes the last byte of the file ST_INPUT when the command makes its output
//   overwrite+read  it does so when the command reads data of a *.safetensors, and renames the file first to ST_RENAMED
//   overwrite+stream  it does so when the command reads a stream, such as the input of set
//   exchange  another process exchanges ST_INPUT and ST_RENAMED behind each new *.safetensors
//   replace  another program gives ST_INPUT the file ST_RENAMED when the command makes its output
//   replace+read  it does so when the command reads data of a *.safetensors
//   unreadable  the file ST_INPUT cannot be opened
//   listing  a folder cannot be listed: the first call fails
//   defect   OpenSSL computes no digest
//
// Loaded before the C library and OpenSSL.
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int asked_for(const char *what) {
  const char *asked = getenv("ST_INTERFERENCE");
  return asked != NULL && strcmp(asked, what) == 0;
}

static int ends_with(const char *text, size_t n, const char *end) {
  const size_t length = strlen(end);
  return n >= length && memcmp(text + n - length, end, length) == 0;
}

static int is_written_file(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t n = readlink(link, path, sizeof path);
  return n > 0 && ends_with(path, (size_t)n, ".safetensors");
}

static void overwrite_input(void) {
  const char *path = getenv("ST_INPUT"), *const renamed = getenv("ST_RENAMED");
  if (renamed != NULL && rename(path, renamed) == 0) path = renamed;
  FILE *const input = fopen(access(path, F_OK) == 0 ? path : renamed, "r+b");
  if (input == NULL || fseek(input, -1, SEEK_END) != 0 || fputc('x', input) != 'x' || fclose(input) != 0) abort();
}

static void replace_input(void) {
  if (rename(getenv("ST_RENAMED"), getenv("ST_INPUT")) != 0 && errno != ENOENT) abort();  // ENOENT: it was done before
}

ssize_t pread(int file, void *to, size_t n, off_t offset) {
  static ssize_t (*next)(int, void *, size_t, off_t);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "pread");
  if (offset > 8 && asked_for("overwrite+read") && is_written_file(file)) overwrite_input();
  if (offset > 8 && asked_for("replace+read") && is_written_file(file)) replace_input();
  const ssize_t got = next(file, to, n, offset);
  if (got > 0 && offset > 8 && asked_for("reads") && is_written_file(file)) ((char *)to)[got - 1] ^= 1;
  return got;
}

size_t fread(void *to, size_t size, size_t n, FILE *stream) {
  static size_t (*next)(void *, size_t, size_t, FILE *);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "fread");
  if (asked_for("overwrite+stream")) overwrite_input();
  return next(to, size, n, stream);
}

static int is_second_shard(const char *name) {
  return strstr(name, "-00002-of-") != NULL && ends_with(name, strlen(name), ".safetensors");
}

static int is_wanted(const char *name) {
  return (asked_for("index") && ends_with(name, strlen(name), ".index.json")) ||
         ((asked_for("shard") || asked_for("shard+signal")) && is_second_shard(name));
}

static void interrupt_behind(const char *name) {
  const int error = errno;
  if ((asked_for("signal") || asked_for("shard+signal")) && is_second_shard(name)) raise(SIGINT);
  errno = error;
}

static void exchange_behind(const char *name) {
  if (!asked_for("exchange") || !ends_with(name, strlen(name), ".safetensors")) return;
  if (renameat2(AT_FDCWD, getenv("ST_INPUT"), AT_FDCWD, getenv("ST_RENAMED"), RENAME_EXCHANGE) != 0) abort();
}

static void overwrite_input_before(int flags) {
  const int makes_output = (flags & O_TMPFILE) == O_TMPFILE || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
  if (makes_output && asked_for("overwrite")) overwrite_input();
  if (makes_output && asked_for("replace")) replace_input();
}

static int is_unreadable(const char *path) {
  if (!asked_for("unreadable") || strcmp(path, getenv("ST_INPUT")) != 0) return 0;
  errno = EACCES;
  return 1;
}

struct dirent *readdir(DIR *folder) {
  static struct dirent *(*next)(DIR *);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "readdir");
  if (!asked_for("listing")) return next(folder);
  errno = EIO;
  return NULL;
}

int open(const char *path, int flags, ...) {
  static int (*next)(const char *, int, ...);
  const int is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
  overwrite_input_before(flags);
  if (is_unreadable(path)) return -1;
  va_list more;
  va_start(more, flags);
  const mode_t mode = is_nameless || (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "open");
  if (!is_nameless || !asked_for("names")) return next(path, flags, mode);
  errno = EOPNOTSUPP;
  return -1;
}

int openat(int folder, const char *path, int flags, ...) {
  static int (*next)(int, const char *, int, ...);
  const int is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
  overwrite_input_before(flags);
  va_list more;
  va_start(more, flags);
  const mode_t mode = is_nameless || (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "openat");
  if (!is_nameless || !asked_for("names")) return next(folder, path, flags, mode);
  errno = EOPNOTSUPP;
  return -1;
}

static void be_first(int folder, const char *name) {
  if (!is_wanted(name)) return;
  const int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (file < 0) return;
  if (write(file, "theirs", 6) != 6) abort();
  close(file);
}

int linkat(int from, const char *name, int to, const char *new_name, int flags) {
  static int (*next)(int, const char *, int, const char *, int);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "linkat");
  be_first(to, new_name);
  const int result = next(from, name, to, new_name, flags);
  if (result == 0) exchange_behind(new_name);
  interrupt_behind(new_name);
  return result;
}

int renameat(int from, const char *name, int to, const char *new_name) {
  static int (*next)(int, const char *, int, const char *);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "renameat");
  be_first(to, new_name);
  const int result = next(from, name, to, new_name);
  if (result == 0) exchange_behind(new_name);
  interrupt_behind(new_name);
  return result;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*next)(clockid_t, struct timespec *);
  static _Atomic time_t fifths;
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
  if (clock != CLOCK_MONOTONIC || !asked_for("time")) return next(clock, now);
  const time_t passed = ++fifths;
  now->tv_sec = 1000 + passed / 5;
  now->tv_nsec = (long)(passed % 5) * 200000000;
  return 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
  return asked_for("threads") ? EAGAIN : next(thread, attributes, run, argument);
}

int EVP_DigestInit_ex(void *context, const void *algorithm, void *engine) {
  static int (*next)(void *, const void *, void *);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "EVP_DigestInit_ex");
  return asked_for("defect") ? 0 : next(context, algorithm, engine);
}
