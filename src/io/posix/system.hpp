// Functions that Linux can implement better than POSIX.1-2008. posix/system.cpp has the portable versions. On Linux,
// src/io/linux replaces it (cmake/system.cmake).
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

// Reopens the file of a descriptor, even if its path has changed. On failure, returns no descriptor and sets errno:
// ESTALE if another file would be opened.
Descriptor reopen(int descriptor, int flags);

// Returns the path of an open file, links resolved, or an empty string if the system cannot report it. `path` is the
// path used to open it. The result belongs to the open descriptor, so another process cannot swap the file between
// check and use.
std::string real_path(int descriptor, const std::string& path);

enum class MountKind : std::uint8_t {
  local,   // or unknown
  remote,  // a network or FUSE, where mapping is slow and servers do not know our mappings
  kernel,  // /proc and similar, whose files have no size
};

MountKind mount_kind(int descriptor, const struct stat& status);

// Like fstat(2), but asks the server of a remote mount. Otherwise the kernel answers from its cache, which may be older
// than the last change by this or another process, such as the removal of another link.
int fresh_status(int descriptor, struct stat& status);
// The same for a path, like stat(2).
int fresh_status(const char* path, struct stat& status);
int fresh_status(int directory, const char* name, struct stat& status);  // of a link itself

// OFD locks on bytes far past all data, owned by the open file description. Plain POSIX locks are released as soon as the
// process closes any descriptor of the file.
enum class ByteLock : std::uint8_t { none, shared, exclusive };
enum class LockedByte : std::uint8_t {
  header,  // while the header is read or written
  data,    // while the bytes of a tensor are written
};

// Does not wait. Returns 0 or the errno: ENOTSUP if the system has no OFD locks.
int set_byte_lock(int descriptor, LockedByte byte, ByteLock lock);

// Whether another open file description holds an exclusive lock set by set_byte_lock(). Takes no lock. Returns false
// if the system has no such locks.
bool is_byte_locked(int descriptor, LockedByte byte);

// Consumes a signal that is pending for this thread so that unblocking it does not deliver it.
void take_pending_signal(int number);

// ---- reading -----------------------------------------------------------------------------------------------------

// Returns the open(2) flag for direct I/O, or 0 if there is none.
int direct_flag();

// Returns the required alignment of offsets, lengths and addresses of direct reads, or 0 if the file does not support
// direct I/O.
std::uint64_t direct_alignment(int descriptor);

// How much of a range the page cache holds.
struct Residency {
  std::uint64_t resident = 0;  // bytes, in whole pages
  bool dirty = false;          // some of it has not been written to the disk
};

// Returns nullopt if the system cannot report it.
std::optional<Residency> residency(int descriptor, std::uint64_t offset, std::uint64_t n);

// Like pread(2) into the first piece or, if the system has preadv, into as many pieces as possible.
ssize_t read_scattered(int descriptor, std::span<const iovec> pieces, off_t offset);

// ---- mappings ----------------------------------------------------------------------------------------------------

// Returns the mmap(2) flags, in addition to MAP_PRIVATE, for a copy-on-write mapping that reserves no memory.
int map_without_reserve();

void advise_pages(void* begin, std::size_t bytes, Advice advice);

// Copies from mapped pages. If they no longer exist, returns false instead of raising SIGBUS: the kernel copies, so a
// missing page is an error (EFAULT), not a signal.
bool copy_from_pages(const void* from, void* to, std::size_t n);
// Does the same with write(2) into a pipe, for systems without a better call and sandboxes that refuse it. Needed
// because a file that was replaced while open may exist only in its mapping.
bool copy_through_pipe(const void* from, void* to, std::size_t n);

// ---- names in a directory ----------------------------------------------------------------------------------------

// Opens a directory for *at() calls. On Linux this works even if the directory may not be listed.
Descriptor open_directory_for_lookup(int directory, const char* path);

// A symbolic link. Status and text are guaranteed to belong to the same link, even if another process replaces it.
struct SymbolicLink {
  struct stat status {};
  std::string text;
};

// Returns 0 or the errno: EAGAIN if the name is no longer a link.
int read_link(int directory, const std::string& name, SymbolicLink& link);

// Why no rename can replace a file, if the system reports it.
enum class Hold : std::uint8_t { none, mount_point, append_only };

Hold hold_of(int directory, const std::string& name);

// Whether this process may replace the files of others in a sticky directory.
bool may_rename_others_files();

// Whether this is the overflow ID, which stands for all users and groups that are not mapped in this user namespace
// (rootless containers). Two files with this owner may belong to different users.
bool is_unmapped(std::uint32_t owner_or_group);

// Opens an unnamed temporary file (O_TMPFILE) for reading and writing. Returns no descriptor if the filesystem does not
// support that, or if the file could not be linked later.
Descriptor open_nameless(int directory, mode_t mode);

// Links such a file to a name. Returns 0, or -1 and sets errno.
int link_nameless(int file, int directory, const std::string& name);

// Like renameat(2), but fails with EEXIST if the new name exists. Returns 0 or the errno: ENOSYS if the system has no
// such rename.
int rename_to_free_name(int from_directory, const std::string& from, int directory, const std::string& to);

// ---- what a file has besides its bytes ---------------------------------------------------------------------------

struct Attribute {
  std::string name;
  std::string value;

  bool operator==(const Attribute& other) const { return name == other.name && value == other.value; }
};

// Access control lists and other extended attributes. POSIX.1-2008 has neither, so the portable functions find none.
struct Attributes {
  std::vector<Attribute> lists;
  std::vector<Attribute> others;  // except those that describe the bytes
  bool lists_known = false;

  bool operator==(const Attributes& other) const {
    return lists == other.lists && others == other.others && lists_known == other.lists_known;
  }
};

// Returns the attributes of the file with this name. Does not follow links.
Attributes attributes_of(int directory, const std::string& name);

// Sets these attributes, ignoring failures.
void give_others(int file, const std::vector<Attribute>& others);

// Gives the file exactly these lists, and removes those inherited from its directory. Returns false if its lists still
// differ.
bool give_lists(int file, const std::vector<Attribute>& lists);

// ---- blocks ------------------------------------------------------------------------------------------------------

// Copies inside the kernel, sharing blocks if the filesystem can. Returns the number of bytes copied. If it is less
// than n, the caller copies the rest.
std::uint64_t copy_in_kernel(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset, std::uint64_t n);

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Returns the first range of [at, end) that is data, not a hole, or {end, end} if there is only a hole. Returns all of
// [at, end) if the filesystem cannot report holes, or if the file ends before `end`. Moves the descriptor's position.
Extent stored_bytes(int file, std::uint64_t at, std::uint64_t end);

// Preallocates the blocks for a file of this size. Returns the errno if the disk is full. Otherwise returns 0, even if
// the filesystem cannot preallocate.
int take_space(int file, std::uint64_t size);

// Starts writing the file's dirty pages to the disk, without waiting.
void begin_writing_back(int file);

}  // namespace st::io
