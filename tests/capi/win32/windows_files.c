/* Differences of files on Windows: replacing and deleting open files, long paths, names that are not ASCII, files that
 * another program does not share, names that lead out of a directory, lengths beyond 32 bits.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../folder.h"

#include <wchar.h>
#include <winioctl.h>

enum { TENSOR_BYTES = 3 * 1024 * 1024 + 5 }; /* some pages, some blocks of 64 KiB, and some bytes more */

static unsigned char byte_at(size_t i, int version) {
  return (unsigned char)((i * 2654435761u >> 13) + (unsigned)version);
}

/* One tensor 'a', whose bytes depend on the version. */
static st_status save(const char *path, int version, uint32_t flags, st_error *err) {
  static unsigned char data[TENSOR_BYTES];
  const uint64_t shape = TENSOR_BYTES;
  st_write_options options = ST_INIT(st_write_options);
  st_writer *writer = NULL;
  st_status status;
  size_t i;
  for (i = 0; i < TENSOR_BYTES; ++i) data[i] = byte_at(i, version);
  options.flags = flags;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add(writer, "a", ST_U8, 1, &shape, data, NULL, NULL) == ST_OK);
  status = st_writer_begin(writer, path, &options, err);
  if (status == ST_OK) status = st_writer_finish(writer, err);
  st_writer_free(writer);
  return status;
}

static int is_version(const unsigned char *data, int version) {
  size_t i;
  if (data == NULL) return 0;
  for (i = 0; i < TENSOR_BYTES; ++i) {
    if (data[i] != byte_at(i, version)) return 0;
  }
  return 1;
}

static int reads_as(const st_file *file, int version) {
  unsigned char *const room = test_alloc(TENSOR_BYTES);
  const int same =
      st_tensor_read(st_get_tensor(file, "a"), room, TENSOR_BYTES, NULL) == ST_OK && is_version(room, version);
  free(room);
  return same;
}

static st_file *opened(const char *path, st_io io) {
  const st_open_options options = test_mode(io);
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  const st_status status = st_open(path, &options, &file, &err);
  CHECK_FOR(status == ST_OK ? path : err.message, status == ST_OK);
  return file;
}

static int count_litter(void) {
  WIN32_FIND_DATAA entry;
  const HANDLE search = FindFirstFileA(".*.st-*", &entry);
  int count = 0;
  if (search == INVALID_HANDLE_VALUE) return 0;
  do {
    ++count;
  } while (FindNextFileA(search, &entry));
  FindClose(search);
  return count;
}

static void an_open_file_is_replaced_and_keeps_its_bytes(void) {
  st_io io;
  for (io = ST_IO_AUTO; io <= ST_IO_READ; ++io) {
    st_error err = ST_INIT(st_error);
    st_file *before, *after;
    CHECK(save("model", 1, 0, NULL) == ST_OK);
    before = opened("model", io);
    if (io != ST_IO_READ) CHECK(is_version(st_tensor_data(st_get_tensor(before, "a")), 1));
    CHECK_FOR(err.message, save("model", 2, ST_WRITE_SYNC, &err) == ST_OK);
    after = opened("model", io);
    CHECK_FOR(kModes[io], reads_as(before, 1) && reads_as(after, 2));
    if (io != ST_IO_READ) {
      CHECK_FOR(kModes[io], is_version(st_tensor_data(st_get_tensor(before, "a")), 1));
      CHECK_FOR(kModes[io], is_version(st_tensor_data(st_get_tensor(after, "a")), 2));
    }
    st_free(before);
    st_free(after);
    CHECK_FOR(kModes[io], DeleteFileA("model"));
    CHECK_FOR(kModes[io], count_litter() == 0);
  }
}

static void an_open_file_is_deleted_and_keeps_its_bytes(void) {
  st_io io;
  for (io = ST_IO_AUTO; io <= ST_IO_READ; ++io) {
    st_file *file;
    CHECK(save("model", 3, 0, NULL) == ST_OK);
    file = opened("model", io);
    CHECK_FOR(kModes[io], DeleteFileA("model"));
    CHECK_FOR(kModes[io], reads_as(file, 3));
    st_free(file);
    CHECK_FOR(kModes[io], GetFileAttributesA("model") == INVALID_FILE_ATTRIBUTES);
  }
}

static void an_edit_replaces_a_file_that_is_open(void) {
  const char *const key = "version", *const value = "two";
  st_error err = ST_INIT(st_error);
  st_file *before, *after;
  CHECK(save("model", 4, 0, NULL) == ST_OK);
  before = opened("model", ST_IO_MAP);
  CHECK_FOR(err.message, st_edit_metadata("model", &key, &value, 1, NULL, &err) == ST_OK);
  after = opened("model", ST_IO_MAP);
  CHECK(st_get_metadata(before, key, NULL) == NULL && st_get_metadata(after, key, NULL) != NULL);
  CHECK(reads_as(before, 4) && reads_as(after, 4));
  st_free(before);
  st_free(after);
  CHECK(DeleteFileA("model") && count_litter() == 0);
}

static void a_file_that_another_program_keeps_for_itself_is_named_and_left_alone(void) {
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  HANDLE held;
  CHECK(save("model", 5, 0, NULL) == ST_OK);
  held = CreateFileA("model", GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
  CHECK(held != INVALID_HANDLE_VALUE);
  CHECK(st_open("model", NULL, &file, &err) == ST_ERR_OPEN && err.os_error == ERROR_SHARING_VIOLATION);
  CHECK_FOR(err.message, strstr(err.message, "'model': ") == err.message && strlen(err.message) > 20);
  err.message[0] = '\0';
  CHECK(save("model", 6, 0, &err) != ST_OK);
  CHECK_FOR(err.message, err.os_error == ERROR_SHARING_VIOLATION && strstr(err.message, "'model'") != NULL);
  CloseHandle(held);
  file = opened("model", ST_IO_READ);
  CHECK(reads_as(file, 5));
  st_free(file);
  CHECK(DeleteFileA("model") && count_litter() == 0);
}

static void a_read_only_file_stays(void) {
  st_error err = ST_INIT(st_error);
  st_file *file;
  CHECK(save("model", 7, 0, NULL) == ST_OK && SetFileAttributesA("model", FILE_ATTRIBUTE_READONLY));
  CHECK(save("model", 8, 0, &err) == ST_ERR_OPEN && err.os_error == ERROR_ACCESS_DENIED);
  CHECK_FOR(err.message, strstr(err.message, "is read-only") != NULL);
  CHECK(SetFileAttributesA("model", FILE_ATTRIBUTE_NORMAL));
  file = opened("model", ST_IO_MAP);
  CHECK(reads_as(file, 7));
  st_free(file);
  CHECK(save("model", 9, ST_WRITE_NO_REPLACE, &err) == ST_ERR_OPEN && err.os_error == ERROR_FILE_EXISTS);
  CHECK(DeleteFileA("model") && count_litter() == 0);
}

static void a_writer_that_does_not_finish_leaves_nothing(void) {
  const uint64_t shape = 1;
  st_writer *writer = NULL;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add(writer, "a", ST_U8, 1, &shape, NULL, NULL, NULL) == ST_OK);
  CHECK(st_writer_begin(writer, "model", NULL, NULL) == ST_OK);
  CHECK(GetFileAttributesA("model") == INVALID_FILE_ATTRIBUTES);
  st_writer_free(writer);
  CHECK(count_litter() == 0 && GetFileAttributesA("model") == INVALID_FILE_ATTRIBUTES);
}

/* This program as a child process, which begins a file and is killed. */
static int begin_and_die(void) {
  const uint64_t shape = 1;
  st_writer *writer = NULL;
  if (st_writer_new(&writer, NULL) != ST_OK ||
      st_writer_add(writer, "a", ST_U8, 1, &shape, NULL, NULL, NULL) != ST_OK ||
      st_writer_begin(writer, "model", NULL, NULL) != ST_OK || count_litter() != 1) {
    return 1;
  }
  TerminateProcess(GetCurrentProcess(), 9);
  return 2;
}

/* Waits for a child process that ends as these two do. */
static void run_child(const char *argument) {
  char program[MAX_PATH], line[MAX_PATH + 20];
  STARTUPINFOA start = {0};
  PROCESS_INFORMATION child;
  DWORD code = 0;
  start.cb = sizeof start;
  GetModuleFileNameA(NULL, program, MAX_PATH);
  snprintf(line, sizeof line, "\"%s\" %s", program, argument);
  CHECK(CreateProcessA(NULL, line, NULL, NULL, FALSE, 0, NULL, NULL, &start, &child));
  WaitForSingleObject(child.hProcess, INFINITE);
  GetExitCodeProcess(child.hProcess, &code);
  CloseHandle(child.hProcess);
  CloseHandle(child.hThread);
  CHECK_FOR(argument, code == 9);
}

static void a_process_that_is_ended_leaves_nothing(void) {
  run_child("begin");
  CHECK(count_litter() == 0 && GetFileAttributesA("model") == INVALID_FILE_ATTRIBUTES);
}

/* Left by a process that died while its file was not marked for deletion. */
static void litter_that_nobody_has_open_is_removed_by_the_next_writer(void) {
  static const char kLitter[] = ".MODEL.st-new-0123456789abcdef",
                    kOther[] = ".model.st-new-notes"; /* case is ignored */
  HANDLE held;
  test_save(kLitter, "x", 1);
  test_save(kOther, "x", 1);
  CHECK(save("model", 1, 0, NULL) == ST_OK);
  CHECK(GetFileAttributesA(kLitter) == INVALID_FILE_ATTRIBUTES &&
        GetFileAttributesA(kOther) != INVALID_FILE_ATTRIBUTES);
  test_save(kLitter, "x", 1);
  held = CreateFileA(kLitter, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                     0, NULL);
  CHECK(save("model", 1, 0, NULL) == ST_OK && GetFileAttributesA(kLitter) != INVALID_FILE_ATTRIBUTES);
  CloseHandle(held);
  CHECK(DeleteFileA(kLitter) && DeleteFileA(kOther) && DeleteFileA("model"));
}

/* Begins a save and gives it up. */
static void begin(const char *path) {
  const uint64_t shape = 1;
  st_writer *writer = NULL;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add(writer, "a", ST_U8, 1, &shape, "a", NULL, NULL) == ST_OK);
  CHECK_FOR(path, st_writer_begin(writer, path, NULL, NULL) == ST_OK);
  st_writer_free(writer);
}

static int there_is(const char *path) { return GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES; }

static int holds(const char *path, int version) {
  st_file *const file = opened(path, ST_IO_READ);
  const int same = reads_as(file, version);
  st_free(file);
  return same;
}

/* A save that cannot replace an open file in one step renames the old one aside. If it is killed then, it leaves both. */
static void an_old_file_that_was_renamed_aside_comes_back(void) {
  static const char kAside[] = ".model.st-old-0123456789abcdef", kNew[] = ".model.st-new-0123456789abcdef";
  static const char kOther[] = ".model.st-old-fedcba9876543210", kOtherNew[] = ".model.st-new-fedcba9876543210";
  static const char *const kHeld[] = {kAside, kNew};
  const DWORD all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  HANDLE other;
  st_file *reader;
  st_error err = ST_INIT(st_error);
  size_t i;
  CHECK(save(kAside, 1, 0, NULL) == ST_OK);
  test_save(kNew, "x", 1);
  for (i = 0; i < 2; ++i) { /* another writer is still there */
    const HANDLE writer = CreateFileA(kHeld[i], DELETE, all, NULL, OPEN_EXISTING, 0, NULL);
    begin("model");
    CHECK_FOR(kHeld[i], !there_is("model") && there_is(kAside) && there_is(kNew));
    CloseHandle(writer);
  }
  test_save(kOther, "x", 1); /* may be the last */
  test_save(kOtherNew, "x", 1);
  begin("model");
  CHECK(!there_is("model") && count_litter() == 4);
  CHECK(save("model", 1, ST_WRITE_NO_REPLACE, &err) == ST_ERR_OPEN);
  CHECK_FOR(err.message, strstr(err.message, ".model.st-old-") != NULL && count_litter() == 4);
  CHECK(save("model", 1, ST_WRITE_ONLY_UNCHANGED, NULL) == ST_ERR_OPEN && !there_is("model") && count_litter() == 4);
  other = CreateFileA(kOtherNew, DELETE, all, NULL, OPEN_EXISTING, 0, NULL);
  begin("model");
  CHECK(!there_is("model") && count_litter() == 4);
  CloseHandle(other);
  CHECK(DeleteFileA(kOther) && DeleteFileA(kOtherNew));

  reader = opened(kAside, ST_IO_READ);
  begin("model");
  CHECK(there_is("model") && count_litter() == 0 && holds("model", 1));
  st_free(reader);

  CHECK(save(kAside, 1, 0, NULL) == ST_OK && count_litter() == 1);
  test_save(kNew, "x", 1);
  reader = opened(kAside, ST_IO_READ);
  begin("model"); /* it exists, so the old file must not come back if it is deleted later */
  CHECK(there_is(kAside) && !there_is(kNew));
  st_free(reader);
  CHECK(save("model", 2, 0, NULL) == ST_OK && count_litter() == 0 && holds("model", 2));

  CHECK(save(kAside, 1, 0, NULL) == ST_OK && DeleteFileA("model")); /* a completed save may leave it too */
  test_save(kOtherNew, "x", 1);
  begin("model");
  CHECK(!there_is("model") && DeleteFileA(kAside) && count_litter() == 0);
}

typedef void (*function)(void);
typedef BOOL(WINAPI *set_information)(HANDLE, FILE_INFO_BY_HANDLE_CLASS, LPVOID, DWORD);

/* What happens when the new file is to take the name of the old one, which was renamed aside. */
typedef enum second_step { FAILS, DIES, COMES_SECOND, WORKS } second_step;

static set_information set_real;
static second_step second;
static int renamed_aside;

static int is_rename_to(const FILE_RENAME_INFO *info, const wchar_t *part) {
  static wchar_t name[4096];
  const size_t length = info->FileNameLength / sizeof *name;
  if (length >= 4096) return 0;
  memcpy(name, info->FileName, length * sizeof *name);
  name[length] = L'\0';
  return wcsstr(name, part) != NULL;
}

/* Stands in for a system that cannot replace an open file in one step. */
static BOOL WINAPI set_in_two_steps(HANDLE file, FILE_INFO_BY_HANDLE_CLASS kind, LPVOID info, DWORD size) {
  const int is_rename = kind == FileRenameInfo || (int)kind == 22; /* FileRenameInfoEx */
  BOOL done;
  if (is_rename && is_rename_to(info, L"\\model") && (!renamed_aside || second != WORKS)) {
    if (renamed_aside && second == DIES) TerminateProcess(GetCurrentProcess(), 9);
    if (renamed_aside && second == COMES_SECOND) {
      CHECK(CopyFileA("another", "model", TRUE));
      second = WORKS;
    }
    SetLastError(ERROR_ACCESS_DENIED);
    return FALSE;
  }
  done = set_real(file, kind, info, size);
  if (done && is_rename && is_rename_to(info, L".st-old-")) renamed_aside = 1;
  return done;
}

/* Makes the library call `other` where it calls `real`. */
static void set_the_import(function real, function other) {
  HMODULE library = GetModuleHandleA("safetensors.dll");
  char *const base = (char *)(library != NULL ? library : GetModuleHandleA(NULL));
  const IMAGE_NT_HEADERS *const headers = (const IMAGE_NT_HEADERS *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
  const IMAGE_IMPORT_DESCRIPTOR *from =
      (const IMAGE_IMPORT_DESCRIPTOR *)(base + headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT]
                                                   .VirtualAddress);
  int found = 0;
  DWORD before;
  for (; from->Name != 0; ++from) {
    function *entry = (function *)(base + from->FirstThunk);
    for (; *entry != NULL; ++entry) {
      if (*entry != real) continue;
      CHECK(VirtualProtect((void *)entry, sizeof *entry, PAGE_READWRITE, &before));
      *entry = other;
      CHECK(VirtualProtect((void *)entry, sizeof *entry, before, &before));
      found = 1;
      break;
    }
  }
  CHECK(found);
}

static void replace_in_two_steps(second_step what) {
  set_real = SetFileInformationByHandle;
  second = what;
  renamed_aside = 0;
  set_the_import((function)set_real, (function)set_in_two_steps);
}

static void replace_as_the_system_can(void) { set_the_import((function)set_in_two_steps, (function)set_real); }

static int replace_and_die(void) {
  replace_in_two_steps(DIES);
  save("model", 2, 0, NULL);
  return 2;
}

static void a_save_that_is_killed_between_two_renames_leaves_the_old_file(void) {
  CHECK(save("model", 1, 0, NULL) == ST_OK);
  run_child("replace");
  CHECK(!there_is("model") && count_litter() == 2);
  CHECK(save(".model.st-old-0000000000000000", 3, 0, NULL) == ST_OK); /* of completed saves, but more recent */
  CHECK(save(".model.st-old-ffffffffffffffff", 4, 0, NULL) == ST_OK);
  begin("model");
  CHECK(count_litter() == 0 && holds("model", 1));
  CHECK(DeleteFileA("model"));
}

static HANDLE(WINAPI *find_real)(LPCWSTR, LPWIN32_FIND_DATAW);
static const char kLeftAside[] = ".model.st-old-0123456789abcdef", kLeftNew[] = ".model.st-new-0123456789abcdef";

/* At the first look for what is left, another save is killed between its renames. */
static HANDLE WINAPI find_after_a_kill(LPCWSTR pattern, LPWIN32_FIND_DATAW found) {
  if (there_is("model")) {
    CHECK(MoveFileA("model", kLeftAside));
    test_save(kLeftNew, "x", 1);
  }
  return find_real(pattern, found);
}

static void a_save_that_is_killed_while_another_begins_leaves_the_old_file(void) {
  find_real = FindFirstFileW;
  CHECK(save("model", 1, 0, NULL) == ST_OK);
  set_the_import((function)find_real, (function)find_after_a_kill);
  begin("model");
  set_the_import((function)find_after_a_kill, (function)find_real);
  CHECK(!there_is("model") && there_is(kLeftAside) && there_is(kLeftNew));
  begin("model");
  CHECK(count_litter() == 0 && holds("model", 1) && DeleteFileA("model"));
}

static void an_old_file_that_cannot_be_renamed_back_comes_back_later(void) {
  const uint64_t shape = 1;
  st_error err = ST_INIT(st_error);
  st_writer *writer = NULL;
  CHECK(save("model", 1, 0, NULL) == ST_OK);
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add(writer, "a", ST_U8, 1, &shape, "a", NULL, NULL) == ST_OK);
  CHECK(st_writer_begin(writer, "model", NULL, NULL) == ST_OK);
  replace_in_two_steps(FAILS);
  CHECK(st_writer_finish(writer, &err) == ST_ERR_WRITE && err.os_error == ERROR_ACCESS_DENIED);
  replace_as_the_system_can();
  CHECK_FOR(err.message, strstr(err.message, ".model.st-old-") != NULL && !there_is("model") && count_litter() == 2);
  CHECK(save("model", 3, ST_WRITE_NO_REPLACE, NULL) == ST_ERR_OPEN && holds("model", 1));
  st_writer_free(writer);
  begin("model");
  CHECK(count_litter() == 0 && holds("model", 1) && DeleteFileA("model"));
}

/* The name of the first old file stays in use until its reader is gone. */
static void a_save_that_another_one_has_overtaken_renames_aside_again(void) {
  st_error err = ST_INIT(st_error);
  st_file *reader;
  CHECK(save("model", 1, 0, NULL) == ST_OK && save("another", 2, 0, NULL) == ST_OK);
  reader = opened("model", ST_IO_MAP);
  replace_in_two_steps(COMES_SECOND);
  CHECK_FOR(err.message, save("model", 3, 0, &err) == ST_OK);
  replace_as_the_system_can();
  CHECK(second == WORKS && reads_as(reader, 1) && holds("model", 3));
  st_free(reader);
  CHECK(count_litter() == 0 && DeleteFileA("model") && DeleteFileA("another"));
}

/* The names of their temporary files begin alike. A name is cut after 200 units, or 199 if a pair follows. */
static void an_old_file_does_not_come_back_under_another_long_name(void) {
  static const int kSizes[] = {198, 199, 200, 210};
  size_t i;
  for (i = 0; i < 4; ++i) {
    const int size = kSizes[i], own = size == 198;
    char aside[240], made[240], name[240];
    memset(name, 'y', 210);
    name[size] = '\0';
    snprintf(aside, sizeof aside, ".%.200s.st-old-0123456789abcdef", name);
    snprintf(made, sizeof made, ".%.200s.st-new-0123456789abcdef", name);
    test_save(aside, "x", 1);
    test_save(made, "x", 1);
    begin(name);
    CHECK_FOR(name, there_is(name) == own && there_is(aside) == !own);
    if (own) {
      CHECK(DeleteFileA(name) && count_litter() == 0);
      continue;
    }
    CHECK(save(name, 1, 0, NULL) == ST_OK && there_is(aside));
    CHECK(DeleteFileA(name) && DeleteFileA(aside));
    begin(name);
    CHECK_FOR(name, count_litter() == 0);
  }
}

static void a_file_that_appears_meanwhile_is_not_replaced_if_asked(void) {
  const uint64_t shape = 1;
  st_write_options options = ST_INIT(st_write_options);
  st_error err = ST_INIT(st_error);
  st_writer *writer = NULL;
  st_file *file;
  int appears;
  options.flags = ST_WRITE_ONLY_UNCHANGED;
  for (appears = 1; appears >= 0; --appears) {
    CHECK(st_writer_new(&writer, NULL) == ST_OK);
    CHECK(st_writer_add(writer, "a", ST_U8, 1, &shape, "a", NULL, NULL) == ST_OK);
    CHECK(st_writer_begin(writer, "model", &options, NULL) == ST_OK);
    if (appears) CHECK(save("model", 1, 0, NULL) == ST_OK);
    CHECK_FOR(err.message, st_writer_finish(writer, &err) == (appears ? ST_ERR_STATE : ST_OK));
    st_writer_free(writer);
    if (appears) {
      file = opened("model", ST_IO_READ);
      CHECK(reads_as(file, 1));
      st_free(file);
    }
    CHECK(DeleteFileA("model") && count_litter() == 0);
  }
}

/* Old bytes after the position would remain after the new bytes. */
static void standard_output_in_front_of_old_bytes_is_refused(void) {
  const HANDLE before = GetStdHandle(STD_OUTPUT_HANDLE);
  st_error err = ST_INIT(st_error);
  HANDLE file;
  test_save("out", "old", 3);
  file = CreateFileA("out", GENERIC_WRITE, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
  CHECK(file != INVALID_HANDLE_VALUE && SetStdHandle(STD_OUTPUT_HANDLE, file));
  CHECK(save("/dev/stdout", 1, 0, &err) == ST_ERR_OPEN);
  CHECK_FOR(err.message, strstr(err.message, "is at byte 0 of a file of 3 bytes") != NULL);
  CHECK(SetFilePointer(file, 0, NULL, FILE_END) == 3);
  CHECK_FOR(err.message, save("/dev/stdout", 1, 0, &err) == ST_OK);
  CHECK(GetFileSize(file, NULL) > 3 + TENSOR_BYTES);
  CloseHandle(file);
  file = CreateFileA("out", FILE_APPEND_DATA, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL); /* at 0, but appends */
  CHECK(file != INVALID_HANDLE_VALUE && SetStdHandle(STD_OUTPUT_HANDLE, file));
  CHECK_FOR(err.message, save("/dev/stdout", 1, 0, &err) == ST_OK);
  CHECK(SetStdHandle(STD_OUTPUT_HANDLE, before));
  CloseHandle(file);
  CHECK(DeleteFileA("out"));
}

/* The name of the temporary file has the first 200 units of this one. The last of them is half of a character. */
static void a_long_name_is_cut_between_characters(void) {
  char name[220];
  wchar_t wide[220];
  st_file *file;
  memset(name, 'n', 199);
  strcpy(name + 199, "\xF0\x9F\xA4\x97x");
  if (save(name, 1, 0, NULL) != ST_OK || save(name, 2, 0, NULL) != ST_OK) {
    CHECK(!"a name with half of a character");
    return;
  }
  file = opened(name, ST_IO_READ);
  CHECK(reads_as(file, 2) && count_litter() == 0);
  st_free(file);
  CHECK(MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, 220) != 0 && DeleteFileW(wide));
}

/* ---- many at once ------------------------------------------------------------------------------------------------ */

enum { SAVERS = 4, SAVES = 20 };

static st_status save_number(uint64_t number, st_error *err) {
  const uint64_t shape = 1;
  st_writer *writer = NULL;
  st_status status;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add(writer, "n", ST_U64, 1, &shape, &number, NULL, NULL) == ST_OK);
  status = st_writer_begin(writer, "model", NULL, err);
  if (status == ST_OK) status = st_writer_finish(writer, err);
  st_writer_free(writer);
  return status;
}

static DWORD WINAPI save_again_and_again(void *faults) {
  int i;
  for (i = 0; i < SAVES; ++i) {
    st_error err = ST_INIT(st_error);
    if (save_number((uint64_t)i, &err) == ST_OK) continue;
    fprintf(stderr, "%s\n", err.message);
    InterlockedIncrement((volatile LONG *)faults);
  }
  return 0;
}

static void saves_at_once_over_an_open_file_all_succeed(void) {
  HANDLE savers[SAVERS];
  volatile LONG faults = 0;
  st_file *before, *after = NULL;
  uint64_t number = SAVES;
  int i;
  CHECK(save_number(SAVES, NULL) == ST_OK);
  before = opened("model", ST_IO_MAP);
  for (i = 0; i < SAVERS; ++i) savers[i] = CreateThread(NULL, 0, save_again_and_again, (void *)&faults, 0, NULL);
  WaitForMultipleObjects(SAVERS, savers, TRUE, INFINITE);
  for (i = 0; i < SAVERS; ++i) CloseHandle(savers[i]);
  CHECK(faults == 0);
  after = opened("model", ST_IO_READ);
  CHECK(st_tensor_read(st_get_tensor(after, "n"), &number, sizeof number, NULL) == ST_OK && number == SAVES - 1);
  CHECK(st_tensor_read(st_get_tensor(before, "n"), &number, sizeof number, NULL) == ST_OK && number == SAVES);
  st_free(before);
  st_free(after);
  CHECK(DeleteFileA("model") && count_litter() == 0);
}

/* Records the changes in a directory since begin_to_watch(). */
typedef struct watch {
  HANDLE folder;
  OVERLAPPED call;
  DWORD changes[4096];
} watch;

static void ask_again(watch *seen) {
  memset(&seen->call, 0, sizeof seen->call);
  CHECK(ReadDirectoryChangesW(seen->folder, seen->changes, sizeof seen->changes, FALSE, FILE_NOTIFY_CHANGE_FILE_NAME,
                              NULL, &seen->call, NULL));
}

static void begin_to_watch(watch *seen) {
  seen->folder = CreateFileA(".", FILE_LIST_DIRECTORY, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                             OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OVERLAPPED, NULL);
  CHECK(seen->folder != INVALID_HANDLE_VALUE);
  ask_again(seen);
}

static int is_named(const FILE_NOTIFY_INFORMATION *change, const wchar_t *name) {
  const size_t length = change->FileNameLength / sizeof(wchar_t);
  return length == wcslen(name) && wcsncmp(change->FileName, name, length) == 0;
}

/* Whether the model was renamed away before a file "end" was created. */
static int model_lost_its_name(watch *seen) {
  int lost = 0;
  for (;;) {
    const FILE_NOTIFY_INFORMATION *change = (const FILE_NOTIFY_INFORMATION *)seen->changes;
    DWORD size = 0;
    CHECK(GetOverlappedResult(seen->folder, &seen->call, &size, TRUE));
    if (size == 0) return -1;
    for (;;) {
      if (is_named(change, L"end")) return lost;
      lost |= is_named(change, L"model") && change->Action == FILE_ACTION_RENAMED_OLD_NAME;
      if (change->NextEntryOffset == 0) break;
      change = (const FILE_NOTIFY_INFORMATION *)((const char *)change + change->NextEntryOffset);
    }
    ask_again(seen);
  }
}

/* Even where open files cannot be replaced in one step, for example on FAT: the handle of the lock must not count. */
static void a_file_that_nobody_has_open_is_replaced_in_one_step(void) {
  static watch seen;
  CHECK(save_number(1, NULL) == ST_OK);
  begin_to_watch(&seen);
  CHECK(save_number(2, NULL) == ST_OK);
  test_save("end", "x", 1);
  CHECK(model_lost_its_name(&seen) == 0);
  CloseHandle(seen.folder);
  CHECK(DeleteFileA("model") && DeleteFileA("end"));
}

/* ---- beyond 32 bits ---------------------------------------------------------------------------------------------- */

static void put(HANDLE file, uint64_t at, const void *data, DWORD size) {
  OVERLAPPED place = {0};
  DWORD written = 0;
  place.Offset = (DWORD)at;
  place.OffsetHigh = (DWORD)(at >> 32);
  CHECK(WriteFile(file, data, size, &written, &place) && written == size);
}

/* Tensor 'b' begins below 4 GiB, ends above, and is longer than the limit of one system call. */
static void a_tensor_across_4_gib_is_read_and_mapped(void) {
  static const char kText[] = "0123456789abcdef";
  const uint64_t begin = (UINT64_C(4) << 30) - (UINT64_C(100) << 20), size = (UINT64_C(257) << 20) + 3;
  const uint64_t marks[] = {0, 100 << 20, (UINT64_C(256) << 20) - 8, size - 16};
  unsigned char *const room = test_alloc((size_t)size);
  LARGE_INTEGER end;
  char header[200];
  uint64_t length;
  DWORD ignored;
  HANDLE file;
  st_io io;
  size_t i;
  snprintf(header, sizeof header,
           "{\"a\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "],\"data_offsets\":[0,%" PRIu64
           "]},\"b\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}}",
           begin, begin, size, begin, begin + size);
  length = strlen(header);
  end.QuadPart = (LONGLONG)(8 + length + begin + size);
  file = CreateFileA("model", GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL);
  DeviceIoControl(file, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &ignored, NULL); /* otherwise NTFS allocates the space */
  CHECK(SetFilePointerEx(file, end, NULL, FILE_BEGIN) && SetEndOfFile(file));
  put(file, 0, &length, 8);
  put(file, 8, header, (DWORD)length);
  for (i = 0; i < 4; ++i) put(file, 8 + length + begin + marks[i], kText, 16);
  CloseHandle(file);
  for (io = ST_IO_AUTO; io <= ST_IO_READ;
       io += io == ST_IO_MAP ? 2 : 1) { /* a copy-on-write mapping counts against the memory */
    st_file *const model = opened("model", io);
    const st_tensor *const b = st_get_tensor(model, "b");
    const unsigned char *const data = io == ST_IO_READ ? room : (const unsigned char *)st_tensor_data(b);
    if (io == ST_IO_READ) CHECK(st_tensor_read(b, room, (size_t)size, NULL) == ST_OK);
    CHECK_FOR(kModes[io], data != NULL);
    for (i = 0; data != NULL && i < 4; ++i) CHECK_FOR(kModes[io], memcmp(data + marks[i], kText, 16) == 0);
    st_free(model);
  }
  free(room);
  CHECK(DeleteFileA("model"));
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void a_path_beyond_260_characters_is_written_and_read(void) {
  static const char kPart[] = "a-folder-with-a-name-of-fifty-characters-or-so-0123";
  static wchar_t wide[2000];
  static char path[2000], sharded[2100], shard[2100];
  char absolute[MAX_PATH];
  size_t ends[8];
  int i;
  st_file *file;
  CHECK(GetFullPathNameA(".", sizeof absolute, absolute, NULL) != 0);
  snprintf(path, sizeof path, "%s", absolute);
  for (i = 0; i < 7; ++i) {
    ends[i] = strlen(path);
    snprintf(path + ends[i], sizeof path - ends[i], "\\%s", kPart);
    swprintf(wide, 2000, L"\\\\?\\%hs", path);
    CHECK(CreateDirectoryW(wide, NULL));
  }
  ends[7] = strlen(path);
  snprintf(path + ends[7], sizeof path - ends[7], "\\m-00001-of-00001.safetensors");
  CHECK(strlen(path) > 350);
  CHECK(save(path, 1, 0, NULL) == ST_OK && save(path, 2, 0, NULL) == ST_OK);
  file = opened(path, ST_IO_MAP);
  CHECK(reads_as(file, 2));
  st_free(file);
  /* and as a shard of a folder and of an index */
  snprintf(sharded, sizeof sharded, "%.*s/m.safetensors.index.json", (int)ends[7], path);
  swprintf(wide, 2000, L"\\\\?\\%.*hs\\m.safetensors.index.json", (int)ends[7], path);
  {
    static const char kIndex[] = "{\"weight_map\":{\"a\":\"m-00001-of-00001.safetensors\"}}";
    DWORD written = 0;
    const HANDLE index = CreateFileW(wide, GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL);
    CHECK(WriteFile(index, kIndex, sizeof kIndex - 1, &written, NULL));
    CloseHandle(index);
  }
  file = opened(sharded, ST_IO_READ);
  CHECK(reads_as(file, 2));
  st_free(file);
  snprintf(shard, sizeof shard, "%.*s", (int)ends[7], path);
  file = opened(shard, ST_IO_AUTO);
  CHECK(reads_as(file, 2));
  st_free(file);
  CHECK(DeleteFileW(wide));
  swprintf(wide, 2000, L"\\\\?\\%hs", path);
  CHECK(DeleteFileW(wide));
  for (i = 7; i > 0; --i) {
    path[ends[i]] = '\0';
    swprintf(wide, 2000, L"\\\\?\\%hs", path);
    CHECK(RemoveDirectoryW(wide));
  }
}

static void a_path_is_utf8(void) {
  static const char kName[] =
      "\xD0\xBC\xD0\xBE\xD0\xB4\xD0\xB5\xD0\xBB\xD1\x8C-\xE6\xA8\xA1\xE5\x9E\x8B-\xF0\x9F\xA4\x97.safetensors";
  static const wchar_t kWide[] = L"\u043C\u043E\u0434\u0435\u043B\u044C-\u6A21\u578B-\U0001F917.safetensors";
  static const char *const kBad[] = {"\xFF", "a\xC3", "\xED\xA0\x80", "\xC0\xAF", "x/\xF8\x88\x80\x80\x80"};
  st_error err = ST_INIT(st_error);
  st_file *file;
  size_t i;
  CHECK(save(kName, 1, 0, NULL) == ST_OK);
  CHECK(GetFileAttributesW(kWide) != INVALID_FILE_ATTRIBUTES);
  file = opened(kName, ST_IO_AUTO);
  CHECK(reads_as(file, 1) && strcmp(st_get_shard_path(file, 0), kName) == 0);
  st_free(file);
  file = opened(".", ST_IO_AUTO); /* the only model of its directory */
  CHECK(reads_as(file, 1) && strstr(st_get_shard_path(file, 0), kName) != NULL);
  st_free(file);
  CHECK(DeleteFileW(kWide));
  for (i = 0; i < sizeof kBad / sizeof kBad[0]; ++i) {
    CHECK(st_open(kBad[i], NULL, &file, &err) == ST_ERR_UTF8);
    CHECK_FOR(err.message, strstr(err.message, "is not UTF-8") != NULL);
    CHECK(save(kBad[i], 1, 0, &err) == ST_ERR_UTF8);
  }
}

static void what_is_no_file_is_named(void) {
  const struct {
    const char *path;
    const char *words;
  } kCases[] = {
      {"NUL", "character device"}, {"CON", "a console"}, {"\\\\.\\pipe\\st-test-pipe", "a pipe"},
      {"nowhere", "'nowhere': "},  {"", "'': "},
  };
  const HANDLE pipe =
      CreateNamedPipeA("\\\\.\\pipe\\st-test-pipe", PIPE_ACCESS_DUPLEX, PIPE_TYPE_BYTE, 1, 4096, 4096, 0, NULL);
  size_t i;
  CHECK(pipe != INVALID_HANDLE_VALUE);
  for (i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    st_error err = ST_INIT(st_error);
    st_file *file = NULL;
    CHECK_FOR(kCases[i].path, st_open(kCases[i].path, NULL, &file, &err) == ST_ERR_OPEN && file == NULL);
    if (strcmp(kCases[i].path, "CON") == 0 && err.os_error != 0) continue; /* a process without a console has none */
    CHECK_FOR(err.message, strstr(err.message, kCases[i].words) != NULL);
  }
  CloseHandle(pipe);
}

static void a_folder_is_no_file_of_tensors_by_its_handle_either(void) {
  const HANDLE folder = CreateFileA(".", GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  CHECK(folder != INVALID_HANDLE_VALUE);
  CHECK(st_open_fd((intptr_t)folder, 0, 0, NULL, &file, &err) == ST_ERR_OPEN && file == NULL);
  CHECK_FOR(err.message, strstr(err.message, "is a directory") != NULL);
  CloseHandle(folder);
}

static void a_handle_keeps_its_position(void) {
  const LARGE_INTEGER none = {{0, 0}}, hundred = {{100, 0}};
  LARGE_INTEGER at;
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  HANDLE handle;
  CHECK(save("model", 3, 0, NULL) == ST_OK);
  handle = CreateFileA("model", GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
  CHECK(SetFilePointerEx(handle, hundred, NULL, FILE_BEGIN));
  CHECK_FOR(err.message, st_open_fd((intptr_t)handle, 0, 0, NULL, &file, &err) == ST_OK);
  CHECK(reads_as(file, 3));
  CHECK(SetFilePointerEx(handle, none, &at, FILE_CURRENT) && at.QuadPart == 100);
  CloseHandle(handle);
  CHECK(reads_as(file, 3) && is_version(st_tensor_data(st_get_tensor(file, "a")), 3));
  st_free(file);
  file = NULL;
  CHECK(st_open_fd((intptr_t)INVALID_HANDLE_VALUE, 0, 0, NULL, &file, &err) == ST_ERR_OPEN);
  CHECK(err.os_error == ERROR_INVALID_HANDLE);
  CHECK(st_open_fd(0, 0, 0, NULL, &file, &err) == ST_ERR_OPEN && err.os_error == ERROR_INVALID_HANDLE);
  CHECK(st_open_fd((intptr_t)handle, 0, 0, NULL, &file, &err) == ST_ERR_OPEN && file == NULL);
  CHECK(DeleteFileA("model"));
}

static void every_use_of_the_cache_reads_the_same(void) {
  st_cache cache;
  unsigned char *const room = test_alloc(TENSOR_BYTES);
  CHECK(save("model", 6, 0, NULL) == ST_OK);
  for (cache = ST_CACHE_AUTO; cache <= ST_CACHE_MAPPED; ++cache) {
    uint32_t threads;
    for (threads = 1; threads <= 8; threads += 7) {
      st_read_options options = ST_INIT(st_read_options);
      st_error err = ST_INIT(st_error);
      st_file *const file = opened("model", ST_IO_READ);
      st_plan *plan = NULL;
      options.cache = cache;
      options.threads = threads;
      options.chunk_bytes = 64 << 10;
      memset(room, 0, TENSOR_BYTES);
      CHECK(st_plan_new(file, &plan, NULL) == ST_OK);
      CHECK(st_plan_add(plan, st_get_tensor(file, "a"), NULL, NULL, NULL, room, TENSOR_BYTES, NULL) == ST_OK);
      CHECK_FOR(err.message, st_plan_run(plan, &options, &err) == ST_OK);
      CHECK(is_version(room, 6));
      st_plan_free(plan);
      st_free(file);
    }
  }
  free(room);
  CHECK(DeleteFileA("model"));
}

static void a_shard_never_leaves_its_folder(void) {
  static const char *const kNames[] = {
      "..\\\\outside",
      "sub\\\\..\\\\..\\\\outside",
      "C:\\\\outside",
      "C:outside",
      "\\\\\\\\server\\\\share\\\\x",
      "a:stream",
      "model:$DATA",
      "CON",
      "nul.safetensors",
      "COM1",
      "sub/lpt9.txt",
      "aux ",
      "inside.",
      "inside ",
      "sub./x",
      "a*",
      "a?b",
      "a|b",
      "CONIN$",
      "sub//x",
      "./inside",
      "\\u0001",
      "com\\u00b9",
      "../outside",
      "sub/../../outside",
  };
  size_t i;
  test_save("outside", "x", 1);
  CHECK(CreateDirectoryA("models", NULL));
  CHECK(save("models\\inside", 1, 0, NULL) == ST_OK);
  for (i = 0; i < sizeof kNames / sizeof kNames[0]; ++i) {
    st_error err = ST_INIT(st_error);
    st_file *file = NULL;
    char index[200];
    snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", kNames[i]);
    test_save("models/m.safetensors.index.json", index, strlen(index));
    CHECK_FOR(kNames[i], st_open("models/m.safetensors.index.json", NULL, &file, &err) == ST_ERR_SHARD && file == NULL);
    CHECK_FOR(err.message, strstr(err.message, "missing") == NULL);
  }
  {
    static const char kGood[] = "{\"weight_map\":{\"a\":\"inside\"}}";
    st_file *file;
    test_save("models/m.safetensors.index.json", kGood, strlen(kGood));
    file = opened("models\\m.safetensors.index.json", ST_IO_AUTO);
    CHECK(reads_as(file, 1));
    st_free(file);
  }
  CHECK(DeleteFileA("models/inside") && DeleteFileA("models/m.safetensors.index.json") && RemoveDirectoryA("models"));
  CHECK(DeleteFileA("outside"));
}

int main(int argc, char **argv) {
  if (argc > 1) return strcmp(argv[1], "begin") == 0 ? begin_and_die() : replace_and_die();
  test_enter_folder();
  an_open_file_is_replaced_and_keeps_its_bytes();
  an_open_file_is_deleted_and_keeps_its_bytes();
  an_edit_replaces_a_file_that_is_open();
  a_file_that_another_program_keeps_for_itself_is_named_and_left_alone();
  a_read_only_file_stays();
  a_writer_that_does_not_finish_leaves_nothing();
  a_process_that_is_ended_leaves_nothing();
  litter_that_nobody_has_open_is_removed_by_the_next_writer();
  an_old_file_that_was_renamed_aside_comes_back();
  a_save_that_is_killed_between_two_renames_leaves_the_old_file();
  a_save_that_is_killed_while_another_begins_leaves_the_old_file();
  an_old_file_that_cannot_be_renamed_back_comes_back_later();
  a_save_that_another_one_has_overtaken_renames_aside_again();
  an_old_file_does_not_come_back_under_another_long_name();
  a_file_that_appears_meanwhile_is_not_replaced_if_asked();
  standard_output_in_front_of_old_bytes_is_refused();
  a_long_name_is_cut_between_characters();
  saves_at_once_over_an_open_file_all_succeed();
  a_file_that_nobody_has_open_is_replaced_in_one_step();
  a_tensor_across_4_gib_is_read_and_mapped();
  a_path_beyond_260_characters_is_written_and_read();
  a_path_is_utf8();
  what_is_no_file_is_named();
  a_folder_is_no_file_of_tensors_by_its_handle_either();
  a_handle_keeps_its_position();
  every_use_of_the_cache_reads_the_same();
  a_shard_never_leaves_its_folder();
  test_leave_folder();
  return test_result();
}
