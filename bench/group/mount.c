/* Shows a folder's files through FUSE at a limited speed, and counts what is read. Nothing is cached, so each byte that a
 * process asks for is read from here. The file .bytes_read contains the count since it was last opened.
 *
 * usage: mount FOLDER BYTES_PER_SECOND MOUNTPOINT -f    (0: without a limit)
 * SPDX-License-Identifier: Apache-2.0 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const kCount = "/.bytes_read";
enum { COUNT_BYTES = 21 };

static int folder;
static double bytes_per_second;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t bytes_read;
static double free_at; /* when the earlier reads are done, in seconds */

static const char *relative(const char *path) { return path[1] == '\0' ? "." : path + 1; }

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void count_and_wait(uint64_t bytes) {
  double until;
  struct timespec time;
  pthread_mutex_lock(&mutex);
  bytes_read += bytes;
  if (free_at < now()) free_at = now();
  if (bytes_per_second > 0) free_at += (double)bytes / bytes_per_second;
  until = free_at;
  pthread_mutex_unlock(&mutex);
  time.tv_sec = (time_t)until;
  time.tv_nsec = (long)((until - (double)time.tv_sec) * 1e9);
  while (bytes_per_second > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) continue;
}

static int get_attributes(const char *path, struct stat *out, struct fuse_file_info *file) {
  (void)file;
  if (strcmp(path, kCount) == 0) {
    memset(out, 0, sizeof(*out));
    out->st_mode = S_IFREG | 0444;
    out->st_nlink = 1;
    out->st_size = COUNT_BYTES;
    return 0;
  }
  return fstatat(folder, relative(path), out, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

static int list(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *file,
                enum fuse_readdir_flags flags) {
  (void)path, (void)offset, (void)file, (void)flags;
  fill(buffer, ".", NULL, 0, (enum fuse_fill_dir_flags)0);
  return 0;
}

static int open_file(const char *path, struct fuse_file_info *file) {
  file->direct_io = 1;
  if (strcmp(path, kCount) == 0) {
    char *const text = (char *)malloc(COUNT_BYTES + 1);
    if (text == NULL) return -ENOMEM;
    pthread_mutex_lock(&mutex);
    snprintf(text, COUNT_BYTES + 1, "%20llu\n", (unsigned long long)bytes_read);
    bytes_read = 0;
    pthread_mutex_unlock(&mutex);
    file->fh = (uint64_t)(uintptr_t)text;
    return 0;
  }
  file->fh = (uint64_t)openat(folder, relative(path), O_RDONLY | O_CLOEXEC);
  return (int)file->fh < 0 ? -errno : 0;
}

static int read_file(const char *path, char *to, size_t bytes, off_t offset, struct fuse_file_info *file) {
  ssize_t done;
  if (strcmp(path, kCount) == 0) {
    if (offset >= COUNT_BYTES) return 0;
    if (bytes > (size_t)(COUNT_BYTES - offset)) bytes = (size_t)(COUNT_BYTES - offset);
    memcpy(to, (const char *)(uintptr_t)file->fh + offset, bytes);
    return (int)bytes;
  }
  done = pread((int)file->fh, to, bytes, offset);
  if (done < 0) return -errno;
  count_and_wait((uint64_t)done);
  return (int)done;
}

static int close_file(const char *path, struct fuse_file_info *file) {
  if (strcmp(path, kCount) == 0) {
    free((void *)(uintptr_t)file->fh);
  } else {
    close((int)file->fh);
  }
  return 0;
}

int main(int argc, char **argv) {
  struct fuse_operations operations;
  memset(&operations, 0, sizeof(operations));
  operations.getattr = get_attributes;
  operations.readdir = list;
  operations.open = open_file;
  operations.read = read_file;
  operations.release = close_file;
  if (argc < 4 || (folder = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return 2;
  bytes_per_second = atof(argv[2]);
  argv[2] = argv[0];
  return fuse_main(argc - 2, argv + 2, &operations, NULL);
}
