/* Several threads make the first buffers of a process at the same time. In every third process, wine 8 reports to some of
 * them that the machine has no memory, because it has not counted it yet. So this test starts several processes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../test.h"

#include <process.h>
#include <windows.h>

enum { THREADS = 4, PROCESSES = 20 };

static volatile LONG ready, failed;

static DWORD WINAPI make_one(void *unused) {
  void *buffer = NULL;
  (void)unused;
  InterlockedIncrement(&ready);
  while (ready < THREADS) YieldProcessor();
  if (st_buffer_new(4096, ST_BUFFER_LAZY, 0, &buffer, NULL) != ST_OK) InterlockedIncrement(&failed);
  st_buffer_free(buffer);
  return 0;
}

static void make_all(void) {
  HANDLE threads[THREADS];
  int i;
  for (i = 0; i < THREADS; ++i) {
    threads[i] = CreateThread(NULL, 0, make_one, NULL, 0, NULL);
    CHECK(threads[i] != NULL);
  }
  WaitForMultipleObjects(THREADS, threads, TRUE, INFINITE);
  CHECK(failed == 0);
}

int main(int argc, char **argv) {
  wchar_t program[1024];
  int i;
  (void)argv;
  make_all();
  if (argc > 1) return test_result();
  CHECK(GetModuleFileNameW(NULL, program, 1024) < 1024);
  for (i = 1; i < PROCESSES; ++i) CHECK(_wspawnl(_P_WAIT, program, L"first_buffers", L"once", NULL) == 0);
  return test_result();
}
