/* Memory that fails on demand: this program's malloc and mmap replace the C library's, for libsafetensors too.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ST_TEST_FAILING_MEMORY_H
#define ST_TEST_FAILING_MEMORY_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_FAILING_MEMORY 0 /* a sanitizer has its own allocator */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TEST_FAILING_MEMORY 0
#endif
#endif
#if !defined(TEST_FAILING_MEMORY)
#if defined(__GLIBC__) && defined(__LP64__)
#define TEST_FAILING_MEMORY 1
#else
#define TEST_FAILING_MEMORY 0
#endif
#endif

#if TEST_FAILING_MEMORY

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct memory_plan {
  int armed;
  long fails_at;  /* this call, counted from 1; 0: none */
  int from_there; /* and all after it */
  size_t least;   /* all blocks of this size and above; 0: none */
} memory_plan;

static memory_plan memory_faults;
static long memory_calls;    /* since it was armed */
static long memory_requests; /* bytes, since it was armed */
static long memory_refusals; /* since it was armed */
static long memory_blocks;   /* now */
static long memory_mappings; /* now */

static inline void memory_arm(long fails_at, int from_there) {
  memory_calls = 0;
  memory_requests = 0;
  memory_refusals = 0;
  memory_faults.fails_at = fails_at;
  memory_faults.from_there = from_there;
  memory_faults.least = 0;
  __atomic_store_n(&memory_faults.armed, 1, __ATOMIC_SEQ_CST);
}

/* Makes all allocations of at least this many bytes fail. */
static inline void memory_arm_large(size_t least) {
  memory_arm(0, 0);
  memory_faults.least = least;
}

static inline void memory_disarm(void) { __atomic_store_n(&memory_faults.armed, 0, __ATOMIC_SEQ_CST); }

static int memory_fails(size_t size) {
  if (!__atomic_load_n(&memory_faults.armed, __ATOMIC_SEQ_CST)) return 0;
  const long call = __atomic_add_fetch(&memory_calls, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&memory_requests, (long)size, __ATOMIC_SEQ_CST);
  const int fails = call == memory_faults.fails_at || (memory_faults.from_there && call > memory_faults.fails_at) ||
                    (memory_faults.least != 0 && size >= memory_faults.least);
  if (fails) {
    __atomic_add_fetch(&memory_refusals, 1, __ATOMIC_SEQ_CST);
    errno = ENOMEM;
  }
  return fails;
}

static void *memory_counted(void *block) {
  if (block != NULL) __atomic_add_fetch(&memory_blocks, 1, __ATOMIC_SEQ_CST);
  return block;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);
void *memalign(size_t alignment, size_t size);

void *malloc(size_t size) { return memory_fails(size) ? NULL : memory_counted(__libc_malloc(size)); }

void *calloc(size_t count, size_t size) {
  return memory_fails(count * size) ? NULL : memory_counted(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size) {
  if (memory_fails(size)) return NULL;
  return block == NULL ? memory_counted(__libc_realloc(block, size)) : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
  return memory_fails(size) ? NULL : memory_counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
  void *const made = memalign(alignment, size);
  if (made == NULL) return ENOMEM;
  *block = made;
  return 0;
}

void free(void *block) {
  if (block != NULL) __atomic_sub_fetch(&memory_blocks, 1, __ATOMIC_SEQ_CST);
  __libc_free(block);
}

static void *memory_map(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  if (memory_fails(0)) return MAP_FAILED;
#if defined(__s390x__) /* whose system call takes its arguments in memory */
  const uint64_t arguments[] = {(uintptr_t)address, size,         (uint64_t)protection,
                                (uint64_t)flags,    (uint64_t)fd, (uint64_t)offset};
  const long mapped = syscall(SYS_mmap, arguments);
#else
  const long mapped = syscall(SYS_mmap, address, size, protection, flags, fd, offset);
#endif
  if (mapped != -1) __atomic_add_fetch(&memory_mappings, 1, __ATOMIC_SEQ_CST);
  return (void *)mapped;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  return memory_map(address, size, protection, flags, fd, offset);
}

#if !defined(__USE_FILE_OFFSET64) /* else mmap() above has this name already */
void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  return memory_map(address, size, protection, flags, fd, offset);
}
#endif

int munmap(void *address, size_t size) {
  __atomic_sub_fetch(&memory_mappings, 1, __ATOMIC_SEQ_CST);
  return (int)syscall(SYS_munmap, address, size);
}

#endif
#endif
