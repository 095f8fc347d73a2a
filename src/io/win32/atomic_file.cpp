// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "io/win32/access.hpp"
#include "io/win32/edit_lock.hpp"
#include "io/win32/identity.hpp"
#include "io/win32/target.hpp"
#include "io/win32/write_all.hpp"

namespace st::io {

namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr int kMostAttempts = 20;

}  // namespace

class AtomicFile::State {
 public:
  void open(const char* path, const CreateOptions& options);
  bool in_order() const { return target_.kind == Target::Kind::stream; }
  void set_size(std::uint64_t size) const;
  void write_at(std::uint64_t offset, const void* data, std::size_t n) const;
  void commit(const Identity* only_over);

 private:
  void take_over_access() const;
  void publish(const Identity* only_over);
  void require_unchanged(const Identity* only_over) const;
  int rename(EditLock& lock, bool may_release) const;

  Target target_;
  CreateOptions options_;
  Handle file_;                         // marked for deletion until it is complete
  mutable std::uint64_t position_ = 0;  // of a stream
};

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
// The system takes all of the space when the size is set.
void AtomicFile::reserve(std::uint64_t /*size*/) const {}
void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t n) const {
  state_->write_at(offset, data, n);
}
void AtomicFile::commit() { state_->commit(nullptr); }
void AtomicFile::commit_over(const Identity& seen) { state_->commit(&seen); }

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

// ---- writing -----------------------------------------------------------------------------------------------------

void AtomicFile::State::open(const char* path, const CreateOptions& options) {
  options_ = options;
  target_ = find_target(path);
  if (!options.replace && target_.kind != Target::Kind::absent) {
    fail_os(Status::open, ERROR_FILE_EXISTS, "{}", target_.shown);
  }
  if (in_order()) {
    file_ = std::move(target_.stream);
    return;
  }
  sweep_temp_files(target_.place);
  file_ = create_temp_file(target_.place);
  if (!file_) fail_os(Status::open, last_error(), "a file beside {}", target_.shown);
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
    fail_at(Status::state, offset, "{} takes its bytes in order: {} come next, not {}", target_.shown, position_,
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

// ---- taking the target's place -----------------------------------------------------------------------------------

void AtomicFile::State::commit(const Identity* only_over) {
  const bool synced =
      options_.sync && GetFileType(file_.get()) == FILE_TYPE_DISK;  // pipes and consoles have nothing to
  if (!in_order()) take_over_access();
  if (const int error = synced ? sync_now(file_.get()) : 0; error != 0) {
    fail_os(Status::write, error, "{}: syncing", target_.shown);
  }
  if (!in_order()) publish(only_over);
  file_.close();
}

void AtomicFile::State::take_over_access() const {
  const int error = io::take_over_access(target_.place.path(), file_.get());
  if (error != 0) fail_os(Status::write, error, "the access control list for {}", target_.shown);
}

void AtomicFile::State::publish(const Identity* only_over) {
  // Exclusive among saves too, as in io/posix. A save goes ahead without the lock: it replaces whatever is there.
  EditLock lock = EditLock::of_path(target_.place.path(), /*exclusive=*/true);
  require_unchanged(only_over);
  if (only_over != nullptr) lock.require(target_.shown);
  take_over_access();                           // once more, for the syncing may have taken long
  int error = set_deleted(file_.get(), false);  // else the file would go with its handle
  if (error == 0) error = rename(lock, only_over == nullptr);
  if (error != 0) {
    set_deleted(file_.get(), true);
    fail_os(Status::write, error, "{}", target_.shown);
  }
  // Its new name is in the log of the filesystem, which this writes to the disk: folders cannot be synced.
  error = options_.sync ? sync_now(file_.get()) : 0;
  if (error != 0) {
    fail_os(Status::write, error, "{} is complete and in its place, but its name could not be synced", target_.shown);
  }
}

// Where a file that is open cannot be replaced in one step, our lock's handle counts as well. An edit keeps it: no save
// may come between its last look and its rename.
int AtomicFile::State::rename(EditLock& lock, bool may_release) const {
  const auto is_refusal = [](int error) {
    return error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION || error == ERROR_USER_MAPPED_FILE;
  };
  const std::wstring path = target_.place.path();
  int error = rename_temp_file(file_.get(), path, options_.replace);
  if (!options_.replace || !is_refusal(error)) return error;
  if (may_release && lock.held()) {
    lock.release();
    error = rename_temp_file(file_.get(), path, true);
  }
  for (int attempt = 0; is_refusal(error) && attempt < kMostAttempts; ++attempt) {
    error = rename_over_open_file(file_.get(), target_.place);
    // Another writer's file is aside at this moment, or was put there.
    if (error == ERROR_FILE_NOT_FOUND) error = rename_temp_file(file_.get(), path, true);
  }
  return error;
}

void AtomicFile::State::require_unchanged(const Identity* only_over) const {
  if (only_over == nullptr) return;
  const Handle there(CreateFileW(target_.place.path().c_str(), FILE_READ_ATTRIBUTES, kShareAll, nullptr, OPEN_EXISTING,
                                 FILE_FLAG_OPEN_REPARSE_POINT | kNotActedFor, nullptr));
  const auto now = there ? identity_of(there.get()) : std::nullopt;
  if (now && *now == *only_over) return;
  fail(Status::state, "{} was {} by somebody else meanwhile", target_.shown, there ? "changed or replaced" : "removed");
}

}  // namespace st::io
