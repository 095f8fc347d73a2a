// Counts bytes moved and compared, peak memory, and bytes read from files by position.
//
// cost_test.py loads this before the C library. Unlike time, the counts are the same in every run.
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static unsigned long long moved, compared, was_read;
static long long held, most_held;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *pointer);

static void *taken(void *pointer) {
  if (pointer == NULL) return NULL;
  const long long now = __atomic_add_fetch(&held, (long long)malloc_usable_size(pointer), __ATOMIC_RELAXED);
  if (now > most_held) most_held = now;  // one thread does nearly all
  return pointer;
}

static void given(void *pointer) {
  if (pointer != NULL) __atomic_sub_fetch(&held, (long long)malloc_usable_size(pointer), __ATOMIC_RELAXED);
}

void *malloc(size_t size) { return taken(__libc_malloc(size)); }
void *calloc(size_t n, size_t size) { return taken(__libc_calloc(n, size)); }
void *aligned_alloc(size_t align, size_t size) { return taken(__libc_memalign(align, size)); }
void *memalign(size_t align, size_t size) { return taken(__libc_memalign(align, size)); }

int posix_memalign(void **out, size_t align, size_t size) {
  *out = taken(__libc_memalign(align, size));
  return *out == NULL ? 12 : 0;
}

void *realloc(void *old, size_t size) {
  given(old);
  void *pointer = __libc_realloc(old, size);
  return pointer != NULL ? taken(pointer) : size != 0 ? taken(old) : NULL;
}

void free(void *pointer) {
  given(pointer);
  __libc_free(pointer);
}

// Found at the first call, which comes before there is a second thread.
void *memmove(void *to, const void *from, size_t n) {
  static void *(*next)(void *, const void *, size_t);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "memmove");
  __atomic_add_fetch(&moved, n, __ATOMIC_RELAXED);
  return next(to, from, n);
}

void *memcpy(void *to, const void *from, size_t n) {
  static void *(*next)(void *, const void *, size_t);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "memcpy");
  __atomic_add_fetch(&moved, n, __ATOMIC_RELAXED);
  return next(to, from, n);
}

int memcmp(const void *a, const void *b, size_t n) {
  static int (*next)(const void *, const void *, size_t);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "memcmp");
  __atomic_add_fetch(&compared, n, __ATOMIC_RELAXED);
  return next(a, b, n);
}

ssize_t pread(int file, void *to, size_t n, off_t offset) {
  static ssize_t (*next)(int, void *, size_t, off_t);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "pread");
  const ssize_t got = next(file, to, n, offset);
  if (got > 0) __atomic_add_fetch(&was_read, (unsigned long long)got, __ATOMIC_RELAXED);
  return got;
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("ST_COUNTS");
  FILE *file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%llu %llu %lld %llu\n", moved, compared, most_held, was_read);
  fclose(file);
}
