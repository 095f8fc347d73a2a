/* Only where coverage is measured: a child that ends by _exit() would take its counts with it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

_Noreturn void __wrap__exit(int status) {
  struct rlimit most; /* under which a file of counts would end in the middle */
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur == RLIM_INFINITY) __gcov_dump();
  __real__exit(status);
}
