// SPDX-License-Identifier: Apache-2.0
#include "input.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "io/posix/file.hpp"
#include "io/posix/system.hpp"

namespace cli::importer {

Input::Input(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  struct stat status {};
  if (!file_ || st::io::fresh_status(file_.get(), status) != 0) fail_os();
  if (!S_ISREG(status.st_mode)) throw ImportError{kUnreadable, "not a regular file"};
  size_ = static_cast<std::uint64_t>(status.st_size);
  seen_ = st::io::identity_of(status);
}

Input::Input(Descriptor file, std::uint64_t size) : file_(std::move(file)), size_(size) {}

Input Input::of_memory(std::string bytes) {
  Input input;
  input.size_ = bytes.size();
  input.memory_ = std::move(bytes);
  return input;
}

void Input::read(std::uint64_t offset, void* to, std::size_t n) const {
  if (offset > size_ || n > size_ - offset) fail(size_, "file too short: expected {} bytes at byte {}", n, offset);
  if (!file_) {
    if (n > 0) std::memcpy(to, memory_.data() + offset, n);
    return;
  }
  char* at = static_cast<char*>(to);
  while (n > 0) {
    const ssize_t got = pread(file_.get(), at, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_os();
    if (got == 0) fail_changed("truncated");
    at += got;
    offset += static_cast<std::uint64_t>(got);
    n -= static_cast<std::size_t>(got);
  }
}

void Input::require_unchanged() const {
  if (seen_.inode == 0) return;
  struct stat status {};
  if (st::io::fresh_status(file_.get(), status) != 0) fail_os();
  const st::io::Identity now = st::io::identity_of(status);
  if (now.size < seen_.size) fail_changed("truncated");
  if (!now.same_bytes(seen_)) fail_changed("changed");
}

// ---- Cursor ---------------------------------------------------------------------------------------------------------------

void Cursor::require(std::uint64_t n) const {
  if (n > left()) fail(offset(), "unexpected end: expected {} bytes, {} left", n, left());
}

// Returns a pointer to the next n bytes. n is at most the size of the buffer.
const unsigned char* Cursor::buffered(std::size_t n) {
  require(n);
  if (at_ < buffer_begin_ || at_ - buffer_begin_ > buffer_size_ || buffer_size_ - (at_ - buffer_begin_) < n) {
    buffer_begin_ = at_;
    buffer_size_ = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), left()));
    input_.read(at_, buffer_.data(), buffer_size_);
  }
  return buffer_.data() + (at_ - buffer_begin_);
}

std::uint64_t Cursor::number(std::size_t bytes) {
  const unsigned char* from = buffered(bytes);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{from[i]} << (8 * i);
  at_ += bytes;
  return value;
}

std::string Cursor::text(std::uint64_t n) {
  require(n);
  if (n > kLongestText) fail(offset(), "string of {} bytes (limit: {})", n, kLongestText);
  std::string value(static_cast<std::size_t>(n), '\0');
  if (n <= buffer_.size()) {
    std::copy_n(buffered(value.size()), value.size(), value.data());
  } else {
    input_.read(at_, value.data(), value.size());
  }
  at_ += n;
  return value;
}

std::string Cursor::line() {
  const std::uint64_t begin = offset();
  std::string value;
  for (char c = static_cast<char>(u8()); c != '\n'; c = static_cast<char>(u8())) {
    if (value.size() == kLongestLine) fail(begin, "line of more than {} bytes", kLongestLine);
    value.push_back(c);
  }
  return value;
}

void Cursor::skip(std::uint64_t n) {
  require(n);
  at_ += n;
}

}  // namespace cli::importer
