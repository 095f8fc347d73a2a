// System calls that fail, or at which the process dies, on demand.
//
// The program's own definitions of write(), rename() and so on replace the C library's, so the library under test,
// which is linked into it, calls these. A test forks, arms one fault in the child, and inspects the disk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace faults {

enum class Action {
  none,
  fail,        // not executed, returns -1 and `error`; but a close is executed, as on Linux
  cut_short,   // half of it is done
  none_of_it,  // 0 bytes are written, and no error
  kill_before,
  kill_after,
};

struct Plan {
  std::size_t at = SIZE_MAX;  // which call, counted from 0
  Action action = Action::none;
  int error = 0;
  bool no_nameless_files = false;  // O_TMPFILE always fails
  bool no_kernel_copies = false;   // so is copy_file_range
  bool no_links = false;           // and linkat
  bool half_a_copy = false;        // copy_file_range copies half at its first call, and fails from then on
  bool interrupted_opens = false;  // every other open is interrupted by a signal
  std::size_t interruptions = 0;   // of fallocate, before it has an effect
  void (*before_open)(const char* path, int flags) = nullptr;
  void (*before_link)(int folder, const char* name) = nullptr;  // the new name
  void (*before_rename)() = nullptr;
  void (*before_sync)() = nullptr;    // of a file
  void (*before_write)() = nullptr;   // to a stream
  void (*before_pwrite)() = nullptr;  // to a file
  bool only_refusals = false;         // no call is counted or fails; for threads
  bool record_changes = false;        // for changes()
};

// A change to the disk, or a sync. Inode numbers identify files and directories.
struct Change {
  enum class Kind { create, bytes, size, mode, name, sync, failed_sync };

  Kind kind = Kind::create;
  std::uint64_t inode = 0;   // name: the file that it now leads to; 0: none
  std::uint64_t folder = 0;  // name: where it is
  std::string name;
  std::uint64_t offset = 0;  // of `bytes`
  std::string bytes;
  std::uint64_t value = 0;  // size, or mode; create: the mode
};

void arm(const Plan& plan);

// The calls since arm() that change something, or that can report a failed change.
const std::vector<std::string>& calls();

// With `record_changes`, the changes and syncs since arm(), also by hooks. A rename is two changes of names.
// write() is not recorded.
const std::vector<Change>& changes();

// Returns the interruptions of fallocate that have not happened yet.
std::size_t interruptions_left();

void disarm();

// How many seconds time() is ahead of the system's clock, which stamps files. Independent of arm().
void set_clock(long seconds_ahead);

// While true, flock() locks all bytes of the file for its open file description, as on NFS. Independent of arm().
void set_flock_by_bytes(bool by_bytes);

}  // namespace faults
