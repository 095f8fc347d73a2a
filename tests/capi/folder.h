/* A temporary working directory, removed at the end, for tests with many kinds of files.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ST_TEST_FOLDER_H
#define ST_TEST_FOLDER_H

#include "system.h"
#include "test.h"

static char test_folder[4096];

static inline void test_enter_folder(void) {
  const char *base = test_temporary_folder();
  snprintf(test_folder, sizeof test_folder, "%s/st-test-XXXXXX", base != NULL && *base != '\0' ? base : "/tmp");
  if (test_make_folder(test_folder) == NULL || chdir(test_folder) != 0) {
    perror(test_folder);
    abort();
  }
}

/* Files and empty folders only. */
static inline void test_leave_folder(void) {
  DIR *folder;
  struct dirent *entry;
  if (chdir(test_folder) != 0) abort();
  folder = opendir(".");
  while (folder != NULL && (entry = readdir(folder)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (unlink(entry->d_name) != 0) rmdir(entry->d_name);
  }
  if (folder != NULL) closedir(folder);
  if (chdir("/") != 0 || rmdir(test_folder) != 0) perror(test_folder);
}

static inline st_open_options test_mode(st_io io) {
  st_open_options options = ST_INIT(st_open_options);
  options.io = io;
  return options;
}

static const char *const kModes[] = {"AUTO", "MAP", "COPY", "READ"}; /* by st_io */

#endif
