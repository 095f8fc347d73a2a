// No edit in place: Windows says of no time of a file that it was set before the bytes changed, by which a reader could
// tell that it saw half of an edit. A new file is written instead.
// SPDX-License-Identifier: Apache-2.0
#include "io/edited_file.hpp"

#include "base/error.hpp"
#include "io/win32/byte_lock.hpp"
#include "io/win32/file_source.hpp"
#include "io/win32/identity.hpp"
#include "io/win32/path.hpp"

namespace st::io {

namespace {

constexpr int kMostAttempts = 20;
constexpr std::chrono::milliseconds kPatience(500);

// An editor may hold the lock on a file that another one has replaced meanwhile.
bool is_still(const std::wstring& path, const Identity& seen) {
  const Handle now(CreateFileW(path.c_str(), FILE_READ_ATTRIBUTES, kShareAll, nullptr, OPEN_EXISTING,
                               FILE_FLAG_BACKUP_SEMANTICS | kNotActedFor, nullptr));
  const auto identity = now ? identity_of(now.get()) : std::nullopt;
  return identity && identity->same_file(seen);
}

}  // namespace

struct EditedFile::State {
  std::unique_ptr<Source> source;
  Handle file;  // holds the lock
  Identity seen;
};

EditedFile::EditedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
EditedFile::EditedFile(EditedFile&& other) noexcept = default;
EditedFile::~EditedFile() = default;

std::unique_ptr<Source> EditedFile::take_source() { return std::move(state_->source); }
const Identity& EditedFile::seen() const { return state_->seen; }

EditedFile EditedFile::open(const char* path) {
  const std::wstring native = native_path(path);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    auto edited = std::make_unique<State>();
    PlainFile plain = PlainFile::open(native, path);
    // Not by the path, which may lead elsewhere by now. Refused for a file that is read-only.
    edited->file = Handle(ReOpenFile(plain.handle(), GENERIC_READ | GENERIC_WRITE, kShareAll, 0));
    if (!edited->file) fail_os(Status::open, last_error(), "{}", plain.shown());
    if (lock_byte(edited->file.get(), LockedByte::edit, true, kPatience) == ERROR_LOCK_VIOLATION) {
      fail(Status::state, "{} is being edited by somebody else", plain.shown());
    }
    const auto seen = identity_of(edited->file.get());
    if (!seen) fail_os(Status::open, last_error(), "{}", plain.shown());
    if (!is_still(native, *seen)) continue;
    edited->seen = *seen;
    edited->source = std::make_unique<FileSource>(std::move(plain), 0, seen->size);
    return EditedFile(std::move(edited));
  }
  fail(Status::state, "{} was replaced each of {} times that it was opened", in_quotes(path), kMostAttempts);
}

EditedFile::Patch EditedFile::patch(std::uint64_t /*offset*/, const void* /*data*/, std::size_t /*n*/, bool /*sync*/) {
  return Patch::refused;
}

}  // namespace st::io
