/* System functions that have other names on Windows than on POSIX systems.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ST_TEST_SYSTEM_H
#define ST_TEST_SYSTEM_H

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(_WIN32)

#include <direct.h>
#include <io.h>
#include <windows.h>

#ifndef O_CLOEXEC
#define O_CLOEXEC (_O_NOINHERIT | _O_BINARY)
#endif

static inline const char *test_temporary_folder(void) { return getenv("TEMP"); }

/* As mkdtemp(). */
static inline char *test_make_folder(char *pattern) {
  return _mktemp(pattern) != NULL && _mkdir(pattern) == 0 ? pattern : NULL;
}

static inline int test_mkdir(const char *path) { return _mkdir(path); }

/* Returns 0, or -1 if the system or the user cannot create symbolic links. */
static inline int test_link(const char *target, const char *path) {
  const DWORD unprivileged = 2;
  if (!CreateSymbolicLinkA(path, target, unprivileged)) return -1;
  return GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES ? 0 : -1; /* some versions of wine only report success */
}

/* The argument of st_open_fd for a descriptor of the C library. */
static inline intptr_t test_handle(int fd) { return _get_osfhandle(fd); }

/* Windows cannot evict a file, and does not report which pages are in memory. */
static inline void test_evict(const char *path) { (void)path; }

/* Two pages; the second is inaccessible. */
static inline unsigned char *test_guarded_pages(size_t *page) {
  SYSTEM_INFO system;
  unsigned char *pages;
  DWORD before;
  GetSystemInfo(&system);
  *page = system.dwPageSize;
  pages = (unsigned char *)VirtualAlloc(NULL, 2 * *page, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (pages == NULL || !VirtualProtect(pages + *page, *page, PAGE_NOACCESS, &before)) abort();
  return pages;
}

static inline void test_free_pages(unsigned char *pages) { VirtualFree(pages, 0, MEM_RELEASE); }

/* ctest ends a test that hangs. */
static inline void test_end_after(unsigned seconds) { (void)seconds; }

#else

#include <sys/mman.h>

static inline const char *test_temporary_folder(void) { return getenv("TMPDIR"); }
static inline char *test_make_folder(char *pattern) { return mkdtemp(pattern); }
static inline int test_mkdir(const char *path) { return mkdir(path, 0700); }
static inline intptr_t test_handle(int fd) { return fd; }

static inline int test_link(const char *target, const char *path) {
  if (symlink(target, path) != 0) abort();
  return 0;
}

/* Evicts the file from the page cache, if the system can. Syncs it first: dirty pages cannot be evicted. */
static inline void test_evict(const char *path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0) abort();
#if defined(POSIX_FADV_DONTNEED)
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
  close(fd);
}

/* POSIX alone has no MAP_ANONYMOUS, and some tests are compiled for POSIX alone. */
static inline unsigned char *test_guarded_pages(size_t *page) {
  const int zeros = open("/dev/zero", O_RDWR | O_CLOEXEC);
  void *pages;
  *page = (size_t)sysconf(_SC_PAGESIZE);
  pages = mmap(NULL, 2 * *page, PROT_READ | PROT_WRITE, MAP_PRIVATE, zeros, 0);
  close(zeros);
  if (pages == MAP_FAILED || mprotect((unsigned char *)pages + *page, *page, PROT_NONE) != 0) abort();
  return (unsigned char *)pages;
}

static inline void test_free_pages(unsigned char *pages) { munmap(pages, 2 * (size_t)sysconf(_SC_PAGESIZE)); }

static inline void test_end_after(unsigned seconds) { alarm(seconds); }

#endif

#endif
