// A new file is created next to its target, named ".NAME.st-new-" plus 16 random digits. It is marked for deletion
// until it is complete, so the system removes it if the process dies, and no other process can open it. A process that
// dies between clearing the mark and renaming leaves the file behind. The next writer of the target sees that nothing
// has it open, and removes it.
//
// Some systems cannot replace an open file in one step. There the old file is first renamed to ".NAME.st-old-" plus the
// digits of the new file. If the process dies before the second rename, both files remain, and the next writer of the
// target renames the old one back. An old file without a new file of the same digits has been replaced.
// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/edited_file.hpp"
#include "io/os.hpp"
#include "io/win32/edited_file.hpp"
#include "io/win32/file.hpp"

namespace st::io {

namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr int kMostAttempts = 20;         // when other writers of the same target interfere
constexpr int kMostEntries = 4096;        // names checked for stale files in a directory
constexpr std::size_t kMostOfName = 200;  // of the 255 characters that a name may have
constexpr std::wstring_view kMark = L".st-new-";
constexpr std::wstring_view kAsideMark = L".st-old-";
constexpr std::size_t kDigits = 16;

// Missing in the headers of some compilers.
constexpr auto kRenameInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);
constexpr DWORD kReplaceIfExists = 1;
constexpr DWORD kPosixSemantics = 2;

// ---- the target ---------------------------------------------------------------------------------------------------

// A native path, split into directory and name.
struct Place {
  std::wstring directory;
  std::wstring name;

  std::wstring path() const { return below(directory, name); }
};

struct Target {
  enum class Kind : std::uint8_t {
    absent,
    regular,
    stream,  // pipe, console, device, standard output: bytes can only be written in order
    link,    // a symbolic link that is to be replaced itself
  };

  Kind kind = Kind::absent;
  Place place;        // of a regular file, links resolved
  std::string shown;  // the caller's path, quoted, for messages
  Handle stream;      // open for writing
};

Place split(const std::wstring& path) {
  const std::size_t slash = path.rfind(L'\\');
  if (slash == path.npos) return {L".", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

// Returns whether the handle was opened only for appending, so its position does not matter.
bool only_appends(HANDLE file) {
  struct {  // IO_STATUS_BLOCK
    void* status;
    ULONG_PTR information;
  } answer{};
  ACCESS_MASK access = 0;
  constexpr int kAccessInformation = 8;
  using Query = LONG(NTAPI*)(HANDLE, void*, void*, ULONG, int);
  const auto query = reinterpret_cast<Query>(
      reinterpret_cast<void*>(GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "NtQueryInformationFile")));
  return query != nullptr && query(file, &answer, &access, sizeof access, kAccessInformation) == 0 &&
         (access & FILE_WRITE_DATA) == 0;
}

// Throws unless the position is at the end of the file. Otherwise the rest of an older, longer file would follow the
// new bytes.
void require_at_end(HANDLE file, const std::string& shown) {
  if (GetFileType(file) != FILE_TYPE_DISK || only_appends(file)) return;
  LARGE_INTEGER position{};
  LARGE_INTEGER size{};
  const bool known =
      SetFilePointerEx(file, {}, &position, FILE_CURRENT) != FALSE && GetFileSizeEx(file, &size) != FALSE;
  if (!known || position.QuadPart >= size.QuadPart) return;
  fail(
      Status::open,
      "{} is at byte {} of a file of {} bytes, so old bytes would remain at the end: truncate it, or write to its path",
      shown, position.QuadPart, size.QuadPart);
}

Handle standard_handle(DWORD which, const std::string& shown) {
  const HANDLE theirs = GetStdHandle(which);
  if (theirs == nullptr || theirs == INVALID_HANDLE_VALUE) fail_os(Status::open, ERROR_INVALID_HANDLE, "{}", shown);
  require_at_end(theirs, shown);
  Handle own = duplicate_handle(theirs);
  if (!own) fail_os(Status::open, last_error(), "{}", shown);
  return own;
}

bool is_pipe_or_device(const std::wstring& path) { return starts_with(path, L"\\\\.\\"); }

Handle open_stream(const std::wstring& path, const std::string& shown) {
  Handle stream = open_existing(path, GENERIC_WRITE, 0);
  if (!stream) fail_os(Status::open, last_error(), "{}", shown);
  if (GetFileType(stream.get()) == FILE_TYPE_DISK) fail(Status::open, "{} is a disk, not a file", shown);
  return stream;
}

// Opens a file to query its attributes, following links. Empty if there is none. If the path seems not to exist, but is
// not a dangling link either, it is just being replaced: see rename_over_open_file().
Handle look_through_links(const std::wstring& path, const std::string& shown) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Handle file = open_existing(path, FILE_READ_ATTRIBUTES, FILE_FLAG_BACKUP_SEMANTICS);
    if (file) return file;
    const int error = last_error();
    if (error != ERROR_FILE_NOT_FOUND) fail_os(Status::open, error, "{}", shown);
    const Handle itself =
        open_existing(path, FILE_READ_ATTRIBUTES, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
    if (!itself) return {};
    FILE_BASIC_INFO info{};
    GetFileInformationByHandleEx(itself.get(), FileBasicInfo, &info, sizeof info);
    if ((info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0) {
      fail_os(Status::open, error, "{} is a dangling link", shown);
    }
  }
  return {};
}

bool is_link(const std::wstring& path) {
  const Handle itself =
      open_existing(path, FILE_READ_ATTRIBUTES, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
  FILE_ATTRIBUTE_TAG_INFO info{};
  return itself && GetFileInformationByHandleEx(itself.get(), FileAttributeTagInfo, &info, sizeof info) != FALSE &&
         info.ReparseTag == IO_REPARSE_TAG_SYMLINK && (info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0;
}

void require_replaceable(HANDLE file, const std::string& shown) {
  FILE_BASIC_INFO info{};
  if (GetFileInformationByHandleEx(file, FileBasicInfo, &info, sizeof info) == FALSE) {
    fail_os(Status::open, last_error(), "{}", shown);
  }
  if ((info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) fail(Status::open, "{} is a directory", shown);
  if ((info.FileAttributes & FILE_ATTRIBUTE_READONLY) != 0) {
    fail_os(Status::open, ERROR_ACCESS_DENIED, "{} is read-only", shown);
  }
}

// Throws Status::open for a path that can never be written: a directory, a read-only file, a stream of a file ("a:b"), a
// dangling link, or a path in a directory that does not exist. "/dev/stdout" and "/dev/stderr" are the standard
// handles, since Windows has no names for them. With `replace_link`, a symbolic link is the target itself.
Target find_target(const char* path, bool replace_link) {
  Target target;
  target.shown = in_quotes(path);
  const std::string_view given = path;
  if (given == "/dev/stdout" || given == "/dev/stderr") {
    target.stream = standard_handle(given == "/dev/stdout" ? STD_OUTPUT_HANDLE : STD_ERROR_HANDLE, target.shown);
    target.kind = Target::Kind::stream;
    return target;
  }
  std::wstring native = native_path(path);
  if (is_pipe_or_device(native)) {
    target.stream = open_stream(native, target.shown);
    target.kind = Target::Kind::stream;
    return target;
  }
  if (replace_link && is_link(native)) {
    target.kind = Target::Kind::link;
  } else if (const Handle file = look_through_links(native, target.shown)) {
    require_replaceable(file.get(), target.shown);
    if (std::wstring real = final_path(file.get()); !real.empty()) native = std::move(real);
    target.kind = Target::Kind::regular;
  }
  target.place = split(native);
  if (target.place.name.empty()) fail_os(Status::open, ERROR_INVALID_NAME, "{}", target.shown);
  if (target.place.name.find(L':') != std::wstring::npos) {
    fail(Status::open, "{} is a stream of a file, which cannot be replaced", target.shown);
  }
  return target;
}

// ---- access of a replaced file ------------------------------------------------------------------------------------

void copy_attributes(HANDLE from, HANDLE to) {
  constexpr DWORD kCopied = FILE_ATTRIBUTE_HIDDEN | FILE_ATTRIBUTE_SYSTEM | FILE_ATTRIBUTE_NOT_CONTENT_INDEXED;
  FILE_BASIC_INFO old{};
  FILE_BASIC_INFO now{};
  if (GetFileInformationByHandleEx(from, FileBasicInfo, &old, sizeof old) == FALSE ||
      GetFileInformationByHandleEx(to, FileBasicInfo, &now, sizeof now) == FALSE ||
      (old.FileAttributes & kCopied) == (now.FileAttributes & kCopied)) {
    return;
  }
  FILE_BASIC_INFO changed{};  // a time of 0 means no change
  changed.FileAttributes = (now.FileAttributes & ~kCopied) | (old.FileAttributes & kCopied);
  SetFileInformationByHandle(to, FileBasicInfo, &changed, sizeof changed);
}

// Filesystems without access control lists, for example FAT, return these errors.
bool has_no_lists(int error) {
  return error == ERROR_NOT_SUPPORTED || error == ERROR_INVALID_FUNCTION || error == ERROR_CALL_NOT_IMPLEMENTED;
}

// Copies the access control list and some attributes of the old file to the new one, so that no user gains rights.
// Returns 0 or the error. Returns 0 if the old file no longer exists.
int copy_access(const std::wstring& from, HANDLE to) {
  const Handle old = open_existing(from, READ_CONTROL | FILE_READ_ATTRIBUTES, FILE_FLAG_OPEN_REPARSE_POINT);
  if (!old) return GetLastError() == ERROR_FILE_NOT_FOUND ? 0 : last_error();
  copy_attributes(old.get(), to);
  DWORD size = 0;
  GetKernelObjectSecurity(old.get(), DACL_SECURITY_INFORMATION, nullptr, 0, &size);
  if (size == 0) return has_no_lists(last_error()) ? 0 : last_error();
  std::vector<std::byte> list(size);
  if (GetKernelObjectSecurity(old.get(), DACL_SECURITY_INFORMATION, list.data(), size, &size) == FALSE) {
    return last_error();
  }
  SECURITY_DESCRIPTOR_CONTROL control = 0;
  DWORD revision = 0;
  GetSecurityDescriptorControl(list.data(), &control, &revision);
  // The new file inherits the list of its directory only if the old file did.
  const DWORD inherits =
      (control & SE_DACL_PROTECTED) != 0 ? PROTECTED_DACL_SECURITY_INFORMATION : UNPROTECTED_DACL_SECURITY_INFORMATION;
  const BOOL done = SetKernelObjectSecurity(to, DACL_SECURITY_INFORMATION | inherits, list.data());
  return done != FALSE || has_no_lists(last_error()) ? 0 : last_error();
}

// ---- the temporary file -------------------------------------------------------------------------------------------

bool is_first_of_pair(wchar_t c) { return (c & 0xFC00) == 0xD800; }

// Targets with long names may share a prefix. That is harmless for new files, because open files are never removed.
std::wstring temp_prefix(const Place& target, std::wstring_view mark) {
  std::size_t kept = std::min(target.name.size(), kMostOfName);
  if (kept < target.name.size() && kept > 0 && is_first_of_pair(target.name[kept - 1])) --kept;
  return L"." + target.name.substr(0, kept) + std::wstring(mark);
}

std::wstring random_digits() { return to_wide(formatted("{:016x}", random_seed())).value_or(L""); }

std::wstring temp_path(const Place& target, std::wstring_view mark, std::wstring_view digits) {
  return below(target.directory, temp_prefix(target, mark) + std::wstring(digits));
}

// Ignores case, because a file keeps the case of the name that it was created with.
bool is_same_name(std::wstring_view a, std::wstring_view b) {
  return CompareStringOrdinal(a.data(), static_cast<int>(a.size()), b.data(), static_cast<int>(b.size()), TRUE) ==
         CSTR_EQUAL;
}

bool is_temp_name(std::wstring_view name, std::wstring_view prefix) {
  if (!is_same_name(name.substr(0, prefix.size()), prefix)) return false;
  const std::wstring_view digits = name.substr(prefix.size());
  return digits.size() == kDigits && digits.find_first_not_of(L"0123456789abcdef") == digits.npos;
}

bool file_exists(const std::wstring& path) {
  if (GetFileAttributesW(path.c_str()) != INVALID_FILE_ATTRIBUTES) return true;
  const int error = last_error();
  return error != ERROR_FILE_NOT_FOUND && error != ERROR_PATH_NOT_FOUND;  // it may exist
}

std::string quoted_path(const std::wstring& path) { return in_quotes(to_utf8(path).value_or("")); }

// Opens a file to remove it. With `share` 0, fails if a process has it open.
Handle open_to_remove(const std::wstring& path, DWORD share, DWORD flags = 0) {
  return Handle(
      CreateFileW(path.c_str(), DELETE, share, nullptr, OPEN_EXISTING, flags | FILE_FLAG_OPEN_REPARSE_POINT, nullptr));
}

// The digits of this target's temporary files. Stops after kMostEntries names, because directories can be large.
std::vector<std::wstring> temp_files(const Place& target, std::wstring_view mark) {
  std::vector<std::wstring> found;
  const std::wstring prefix = temp_prefix(target, mark);
  WIN32_FIND_DATAW entry{};
  const HANDLE search = FindFirstFileW(below(target.directory, prefix + L"*").c_str(), &entry);
  if (search == INVALID_HANDLE_VALUE) return found;
  for (int i = 0; i < kMostEntries; ++i) {
    if (is_temp_name(entry.cFileName, prefix)) found.emplace_back(entry.cFileName + prefix.size());
    if (FindNextFileW(search, &entry) == FALSE) break;
  }
  FindClose(search);
  return found;
}

// Sets whether the file disappears with its last handle. Returns 0 or the error.
int set_deleted(HANDLE file, bool deleted) {
  FILE_DISPOSITION_INFO info{};
  info.DeleteFile = deleted ? TRUE : FALSE;
  return SetFileInformationByHandle(file, FileDispositionInfo, &info, sizeof info) != FALSE ? 0 : last_error();
}

// Removes the files that earlier writers left. Keeps both files of a pair if the target does not exist. Each file is
// checked while it is open here: its writer has ended, and no process can rename it.
void sweep_temp_files(const Place& target, std::wstring_view mark) {
  for (const std::wstring& digits : temp_files(target, mark)) {
    const Handle left = open_to_remove(temp_path(target, mark, digits), 0);
    const bool paired = mark == kAsideMark || file_exists(temp_path(target, kAsideMark, digits));
    const bool replaced = GetFileAttributesW(target.path().c_str()) != INVALID_FILE_ATTRIBUTES;
    if (left && (replaced || !paired)) set_deleted(left.get(), true);
  }
}

// Creates a file and marks it for deletion. On failure, returns an empty handle and sets the last error.
Handle create_temp_file(const std::wstring& path) {
  constexpr DWORD kAccess = GENERIC_READ | GENERIC_WRITE | DELETE | READ_CONTROL | WRITE_DAC;  // last two: access
  Handle file(CreateFileW(path.c_str(), kAccess, kShareAll, nullptr, CREATE_NEW, FILE_FLAG_OVERLAPPED, nullptr));
  const int error = file ? set_deleted(file.get(), true) : 0;
  if (error == 0) return file;
  file.close();
  DeleteFileW(path.c_str());
  SetLastError(static_cast<DWORD>(error));
  return {};
}

int set_name(HANDLE file, const std::wstring& path, bool posix, bool replace) {
  const std::size_t bytes = path.size() * sizeof(wchar_t);
  std::vector<std::byte> memory(sizeof(FILE_RENAME_INFO) + bytes + sizeof(wchar_t));
  auto* const info = reinterpret_cast<FILE_RENAME_INFO*>(memory.data());
  const DWORD flags = (replace ? kReplaceIfExists : 0U) | (posix ? kPosixSemantics : 0U);
  std::memcpy(memory.data(), &flags, sizeof flags);  // older headers declare only the byte ReplaceIfExists here
  info->FileNameLength = static_cast<DWORD>(bytes);
  std::memcpy(info->FileName, path.data(), bytes);
  const auto kind = posix ? kRenameInfoEx : FileRenameInfo;
  const BOOL done = SetFileInformationByHandle(file, kind, info, static_cast<DWORD>(memory.size()));
  return done != FALSE ? 0 : last_error();
}

// The single step that replaces the target. Returns 0 or the error.
int rename_temp_file(HANDLE file, const std::wstring& path, bool replace) {
  const int error = set_name(file, path, /*posix=*/true, replace);
  const bool unknown = error == ERROR_INVALID_PARAMETER || error == ERROR_NOT_SUPPORTED ||
                       error == ERROR_INVALID_FUNCTION || error == ERROR_CALL_NOT_IMPLEMENTED ||
                       error == ERROR_INVALID_LEVEL;
  return unknown ? set_name(file, path, /*posix=*/false, replace) : error;
}

// For systems that cannot replace an open file in one step. Renames the old file aside first, and renames it back if
// the new file cannot take its name. Another writer may create a file at this path in the meantime: `replace` is
// whether that one may be replaced. Returns 0 or the error.
int rename_over_open_file(HANDLE file, const Place& target, std::wstring_view digits, bool replace) {
  const std::wstring path = target.path();
  const Handle old = open_existing(path, DELETE | SYNCHRONIZE, FILE_FLAG_OPEN_REPARSE_POINT);
  if (!old) return last_error();
  std::wstring aside = temp_path(target, kAsideMark, digits);
  if (const int error = rename_temp_file(old.get(), aside, false); error != 0) return error;
  const int error = rename_temp_file(file, path, replace);
  if (error != 0) {
    const int error_of_return = rename_temp_file(old.get(), path, false);
    if (error_of_return != ERROR_ALREADY_EXISTS && error_of_return != ERROR_FILE_EXISTS) return error;
    // The next attempt needs the name, but a removed file keeps its name until readers have closed it.
    aside = temp_path(target, kAsideMark, random_digits());
    rename_temp_file(old.get(), aside, false);
  }
  open_to_remove(aside, kShareAll, FILE_FLAG_DELETE_ON_CLOSE);  // a mapped file cannot be marked through a handle
  return error;
}

// Returns whether the names of this target's temporary files begin like those of no other target. A longer name may be
// cut to kMostOfName - 1 characters.
bool has_own_prefix(const Place& target) { return target.name.size() < kMostOfName - 1; }

// Opens a file for renaming. Fails if a writer has it open, but not if a reader has.
Handle open_left_file(const std::wstring& path) {
  return Handle(CreateFileW(path.c_str(), DELETE | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE, nullptr,
                            OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, nullptr));
}

// Renames the old file back if its writer died in rename_over_open_file(), which leaves the new file too. If there are
// several such pairs, all stay: the last old file is unknown, or another writer is between its renames. Returns the
// path of an old file that stays.
std::wstring restore_old_file(const Place& target) {
  if (!has_own_prefix(target)) return {};
  std::vector<std::wstring> pairs;
  for (std::wstring& digits : temp_files(target, kAsideMark)) {
    if (file_exists(temp_path(target, kMark, digits))) pairs.push_back(std::move(digits));
  }
  if (pairs.empty()) return {};
  std::wstring aside = temp_path(target, kAsideMark, pairs[0]);
  if (pairs.size() > 1 || !open_left_file(temp_path(target, kMark, pairs[0]))) return aside;
  const Handle old = open_left_file(aside);
  return old && rename_temp_file(old.get(), target.path(), false) == 0 ? std::wstring() : aside;
}

}  // namespace

// ---- writing ------------------------------------------------------------------------------------------------------

class AtomicFile::State {
 public:
  void open(const char* path, const CreateOptions& options);
  bool in_order() const { return target_.kind == Target::Kind::stream; }
  void set_size(std::uint64_t size) const;
  void write_at(std::uint64_t offset, const void* data, std::size_t n) const;
  void commit(const Identity* only_over, const std::function<void()>& last_look);
  const Identity* seen() const { return seen_ ? &*seen_ : nullptr; }
  bool must_be_absent() const { return options_.only_unchanged && !seen_; }

 private:
  std::optional<Identity> target_now() const;
  void copy_access_of_target() const;
  void publish(const Identity* only_over, const std::function<void()>& last_look);
  void require_unchanged(const Identity* only_over) const;
  int rename(EditLock& lock, bool may_release) const;

  Target target_;
  CreateOptions options_;
  std::wstring digits_;                 // in the names of the new file and of the old one aside
  Handle file_;                         // marked for deletion until it is complete
  std::optional<Identity> seen_;        // of the target, by open() if options_.only_unchanged
  mutable std::uint64_t position_ = 0;  // of a stream
};

void AtomicFile::State::open(const char* path, const CreateOptions& options) {
  options_ = options;
  target_ = find_target(path, options.replace_link);
  if (target_.kind == Target::Kind::absent) {
    const std::wstring aside = restore_old_file(target_.place);
    target_ = find_target(path, options.replace_link);
    if (target_.kind == Target::Kind::absent && !aside.empty() && (!options.replace || options.only_unchanged)) {
      fail_os(Status::open, ERROR_FILE_EXISTS, "{}: a save has renamed it to {}", target_.shown, quoted_path(aside));
    }
  }
  if (!options.replace && target_.kind != Target::Kind::absent) {
    fail_os(Status::open, ERROR_FILE_EXISTS, "{}", target_.shown);
  }
  if (in_order()) {
    if (!options.streams) fail(Status::open, "{} is not a file that can be replaced", target_.shown);
    file_ = std::move(target_.stream);
    return;
  }
  if (options_.only_unchanged) seen_ = target_now();
  if (has_own_prefix(target_.place)) sweep_temp_files(target_.place, kAsideMark);
  sweep_temp_files(target_.place, kMark);
  digits_ = random_digits();
  file_ = create_temp_file(temp_path(target_.place, kMark, digits_));
  if (!file_) fail_os(Status::open, last_error(), "a file next to {}", target_.shown);
}

void AtomicFile::State::set_size(std::uint64_t size) const {
  if (in_order()) return;
  FILE_END_OF_FILE_INFO end{};
  end.EndOfFile.QuadPart = static_cast<std::int64_t>(size);
  const bool possible = size <= INT64_MAX;
  if (possible && SetFileInformationByHandle(file_.get(), FileEndOfFileInfo, &end, sizeof end) != FALSE) return;
  fail_os(Status::write, possible ? last_error() : ERROR_FILE_TOO_LARGE, "{} of {} bytes", target_.shown, size);
}

void AtomicFile::State::write_at(std::uint64_t offset, const void* data, std::size_t n) const {
  int error = 0;
  if (!in_order()) {
    error = write_all_at(file_.get(), offset, data, n);
  } else if (offset != position_) {
    fail_at(Status::state, offset, "{} is written in order: expected offset {}, got {}", target_.shown, position_,
            offset);
  } else {
    error = write_all(file_.get(), data, n);
    position_ += n;
  }
  if (error != 0) {
    throw Error{Status::write, error, offset,
                formatted("{}: writing {} bytes at {}: {}", target_.shown, n, offset, os_error_text(error))};
  }
}

// ---- commit -------------------------------------------------------------------------------------------------------

void AtomicFile::State::commit(const Identity* only_over, const std::function<void()>& last_look) {
  const bool synced = options_.sync && GetFileType(file_.get()) == FILE_TYPE_DISK;  // not pipes and consoles
  if (!in_order()) {
    copy_access_of_target();
  } else if (last_look) {
    last_look();
  }
  if (const int error = synced ? sync_now(file_.get()) : 0; error != 0) {
    fail_os(Status::write, error, "{}: syncing", target_.shown);
  }
  if (!in_order()) publish(only_over, last_look);
  file_.close();
}

void AtomicFile::State::copy_access_of_target() const {
  if (target_.kind == Target::Kind::link) return;
  const int error = copy_access(target_.place.path(), file_.get());
  if (error != 0) fail_os(Status::write, error, "the access control list for {}", target_.shown);
}

void AtomicFile::State::publish(const Identity* only_over, const std::function<void()>& last_look) {
  // Exclusive so that saves also exclude one another, as on POSIX systems. Without the lock, a save continues, because
  // it may replace any file.
  EditLock lock = EditLock::of_path(target_.place.path(), /*exclusive=*/true);
  require_unchanged(only_over);
  if (only_over != nullptr) lock.require(target_.shown);
  copy_access_of_target();  // again, because syncing may have taken long
  if (last_look) last_look();
  int error = set_deleted(file_.get(), false);  // otherwise the file would disappear with its handle
  if (error == 0) error = rename(lock, only_over == nullptr);
  if (error != 0) {
    if (const std::wstring aside = temp_path(target_.place, kAsideMark, digits_); file_exists(aside)) {
      file_.close();  // the new file stays too, as a sign for the next writer
      fail_os(Status::write, error, "{}: the old file is {} until the next save", target_.shown, quoted_path(aside));
    }
    set_deleted(file_.get(), true);
    const bool exists = error == ERROR_ALREADY_EXISTS || error == ERROR_FILE_EXISTS;
    if (must_be_absent() || exists) require_unchanged(only_over);
    fail_os(Status::write, error, "{}", target_.shown);
  }
  // Windows cannot sync directories. This flushes the filesystem's log, which contains the new name.
  error = options_.sync ? sync_now(file_.get()) : 0;
  if (error != 0) {
    fail_os(Status::write, error, "{} is complete and in place, but its name could not be synced", target_.shown);
  }
}

// On systems that cannot replace an open file in one step, our own lock's handle also counts as open. A save releases
// the lock. An edit keeps it so that no save can happen between its last check and its rename.
int AtomicFile::State::rename(EditLock& lock, bool may_release) const {
  const auto is_refusal = [](int error) {
    return error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION || error == ERROR_USER_MAPPED_FILE;
  };
  const std::wstring path = target_.place.path();
  const bool replace = options_.replace && !must_be_absent();
  int error = rename_temp_file(file_.get(), path, replace);
  if (!replace || !is_refusal(error)) return error;
  if (may_release && lock.held()) {
    lock.release();
    error = rename_temp_file(file_.get(), path, true);
  }
  for (int attempt = 0; is_refusal(error) && attempt < kMostAttempts; ++attempt) {
    error = rename_over_open_file(file_.get(), target_.place, digits_, may_release);
    // Another writer has just renamed the target aside.
    if (error == ERROR_FILE_NOT_FOUND) error = rename_temp_file(file_.get(), path, may_release);
  }
  return error;
}

void AtomicFile::State::require_unchanged(const Identity* only_over) const {
  if (only_over == nullptr && !must_be_absent()) return;
  const std::optional<Identity> now = target_now();
  if (only_over == nullptr ? !now : now && *now == *only_over) return;
  fail(Status::state, "{} was {} by another process in the meantime", target_.shown,
       now ? "changed or replaced" : "removed");
}

std::optional<Identity> AtomicFile::State::target_now() const {
  const Handle there = open_existing(target_.place.path(), FILE_READ_ATTRIBUTES, FILE_FLAG_OPEN_REPARSE_POINT);
  return there ? identity_of(there.get()) : std::nullopt;
}

// ---- the public class ---------------------------------------------------------------------------------------------

AtomicFile AtomicFile::create(const char* path, const CreateOptions& options) {
  AtomicFile file;
  file.state_ = std::make_unique<State>();
  file.state_->open(path, options);
  file.in_order_ = file.state_->in_order();
  return file;
}

AtomicFile::AtomicFile() = default;
AtomicFile::AtomicFile(AtomicFile&& other) noexcept = default;
AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept = default;
AtomicFile::~AtomicFile() = default;

void AtomicFile::set_size(std::uint64_t size) const { state_->set_size(size); }
// set_size() allocates the space.
void AtomicFile::reserve(std::uint64_t /*size*/) const {}
void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t n) const {
  state_->write_at(offset, data, n);
}

void AtomicFile::copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(n, kCopyBytes)));
  while (n > 0) {
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(n, kCopyBytes));
    source.read_at(from, buffer.data(), some);
    state_->write_at(offset, buffer.data(), some);
    offset += some;
    from += some;
    n -= some;
  }
}

void AtomicFile::commit(const std::function<void()>& last_look) { state_->commit(state_->seen(), last_look); }
void AtomicFile::commit_over(const EditedFile& edited) { state_->commit(&edited.seen(), {}); }

}  // namespace st::io
