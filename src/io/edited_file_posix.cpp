// SPDX-License-Identifier: Apache-2.0
#include "io/edited_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "io/transfer.hpp"

namespace st::io {

EditedFile EditedFile::open(const char* path) {
  EditedFile edited;
  edited.shown_ = quoted(path);
  PlainFile plain = PlainFile::open(path);
  edited.file_ = Descriptor(plain.reopen(O_RDWR));
  if (flock(edited.file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(Status::state, "{} is being edited by somebody else", edited.shown_);
  }
  // An editor that held the lock a moment ago may have put a new file in this one's place.
  Descriptor(plain.reopen(0)).close();
  const std::uint64_t size = plain.size();
  edited.source_ = Source::file(std::move(plain), 0, size);
  return edited;
}

void EditedFile::patch(std::uint64_t offset, const void* data, std::size_t n, bool sync) {
  if (const int error = write_all_at(file_.get(), offset, data, n); error != 0) {
    throw Error{Status::write, error, offset,
                fmt::format("{}: writing {} bytes at {}: {}", shown_, n, offset, os_error_text(error))};
  }
  int error = sync ? sync_now(file_.get()) : 0;
  if (error == 0) error = errors_of_closing(file_.get());
  if (error != 0) fail_os(Status::write, error, "{}: the new header is written but may not reach the disk", shown_);
}

}  // namespace st::io
