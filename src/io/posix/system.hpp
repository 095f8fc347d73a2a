// Functions with a better implementation on Linux than in POSIX.1-2008. posix/system.cpp has the portable versions; on
// Linux the sources of src/io/linux replace it (cmake/system.cmake).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/memory.hpp"
#include "io/posix/file.hpp"

namespace st::io {

// ---- open files --------------------------------------------------------------------------------------------------

// Opens the file of a descriptor anew, even if its path has changed. No descriptor, and errno, if the system cannot;
// ESTALE if that opened another file.
Descriptor reopen(int descriptor, int flags);

// Returns the path of an open file without links, or nothing if the system cannot tell. `path` is what it was opened
// by. The path is that of the open descriptor, so no other process can exchange the file between a check and its use.
std::string real_path(int descriptor, const std::string& path);

enum class MountKind : std::uint8_t {
  local,   // or unknown
  remote,  // a network or FUSE, where mapping is slow and servers do not know our mappings
  kernel,  // /proc and the like, whose files have no size
};

MountKind mount_kind(int descriptor, const struct stat& status);

// A lock on one byte far behind all data, owned by the open file description (OFD lock). The locks of POSIX.1-2008 end
// with the first descriptor of the file that the process closes.
enum class ByteLock : std::uint8_t { none, shared, exclusive };

// Does not wait. Returns 0 or the errno; ENOTSUP if the system has no such locks.
int set_byte_lock(int descriptor, ByteLock lock);

// Consumes a signal that is pending for this thread, so it is not delivered when it is unblocked.
void take_pending_signal(int number);

// ---- reading -----------------------------------------------------------------------------------------------------

// Returns the flag that opens a file for direct I/O; 0 if there is none.
int direct_flag();

// Returns the alignment of offsets, lengths and addresses of direct reads; 0 if the file has no direct I/O.
std::uint64_t direct_alignment(int descriptor);

// How much of a range the page cache holds.
struct Residency {
  std::uint64_t resident = 0;  // bytes, in whole pages
  bool dirty = false;          // some of it is newer than the disk's copy
};

// Returns nothing if the system does not tell.
std::optional<Residency> residency(int descriptor, std::uint64_t offset, std::uint64_t n);

// As pread(2), into the first of the pieces and, with preadv, also into the next ones.
ssize_t read_scattered(int descriptor, std::span<const iovec> pieces, off_t offset);

// ---- mappings ----------------------------------------------------------------------------------------------------

// Returns the flags of mmap(2), besides MAP_PRIVATE, for a writable copy that does not reserve memory for all of
// itself.
int map_without_reserve();

void advise_pages(void* begin, std::size_t bytes, Advice advice);

// Copies from mapped pages. Returns false instead of raising SIGBUS if they are gone: the kernel copies, so a missing page
// is an error (EFAULT) and not a signal.
bool copy_from_pages(const void* from, void* to, std::size_t n);
// The same by write(2) into a pipe. Systems without a better call need it, and so do sandboxes that refuse that call: a
// model that was saved over its own open file exists in the mapping only.
bool copy_through_pipe(const void* from, void* to, std::size_t n);

// ---- names in a directory ----------------------------------------------------------------------------------------

// Opens a directory for *at() calls; on Linux even one that may not be listed.
Descriptor open_directory_for_lookup(int directory, const char* path);

// A symbolic link. Status and text belong to the same link, so it cannot be replaced in between.
struct SymbolicLink {
  struct stat status {};
  std::string text;
};

// Returns 0 or the errno: EAGAIN if the name is no longer a link.
int read_link(int directory, const std::string& name, SymbolicLink& link);

// The reason why no rename can replace a file, if the system reports one.
enum class Hold : std::uint8_t { none, mount_point, append_only };

Hold hold_of(int directory, const std::string& name);

// Whether this process may replace the files of others in a sticky directory.
bool may_rename_others_files();

// Whether this number stands for all owners and groups that have no number of their own in this user namespace
// (containers of a user without privileges). Two files with this owner may belong to two users.
bool is_unmapped(std::uint32_t owner_or_group);

// Opens a temporary file without a name (O_TMPFILE), for reading and writing. No descriptor if the filesystem has no
// such files, or if nothing could name it later.
Descriptor open_nameless(int directory, mode_t mode);

// Names such a file. Returns 0, or -1 and errno.
int link_nameless(int file, int directory, const std::string& name);

// As renameat(2), but EEXIST if the new name is taken. Returns 0 or the errno; ENOSYS if there is no such rename.
int rename_to_free_name(int directory, const std::string& from, const std::string& to);

// ---- what a file has besides its bytes ---------------------------------------------------------------------------

struct Attribute {
  std::string name;
  std::string value;
};

// Access control lists and other extended attributes. POSIX.1-2008 has neither; the portable functions find none.
struct Attributes {
  std::vector<Attribute> lists;
  std::vector<Attribute> others;  // except those that describe the bytes
  bool lists_known = false;
};

// Of the file of this name. A link is not followed.
Attributes attributes_of(int directory, const std::string& name);

// Sets what can be set.
void give_others(int file, const std::vector<Attribute>& others);

// Gives the file these lists and no other, even if its directory gave it some. Returns false if it has others.
bool give_lists(int file, const std::vector<Attribute>& lists);

// ---- blocks ------------------------------------------------------------------------------------------------------

// Copies inside the kernel, sharing the blocks if the filesystem can. Returns the bytes copied. If they are fewer than
// n, the caller copies the rest.
std::uint64_t copy_in_kernel(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset, std::uint64_t n);

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Returns the first bytes of [at, end) that are stored and not a hole; {end, end} if the rest is a hole. All of it if
// the filesystem cannot tell, or if the file ends before `end`. Moves the descriptor's position.
Extent stored_bytes(int file, std::uint64_t at, std::uint64_t end);

// Allocates the blocks of a file of this size. Returns the errno if there are not enough, otherwise 0, even if the
// filesystem cannot do that.
int take_space(int file, std::uint64_t size);

// Lets the system begin to write the file's bytes to the disk, and does not wait for it.
void begin_writing_back(int file);

}  // namespace st::io
