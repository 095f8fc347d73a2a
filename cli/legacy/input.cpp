// SPDX-License-Identifier: Apache-2.0
#include "input.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "refusal.hpp"

namespace cli::legacy {

Input::Input(const std::string& path)
    : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), path_(path) {
  struct stat status {};
  if (!file_ || fstat(file_.get(), &status) != 0) throw Failure{kUnreadable, path + ": " + std::strerror(errno)};
  if (!S_ISREG(status.st_mode)) throw Failure{kUnreadable, path + ": is no regular file"};
  size_ = static_cast<std::uint64_t>(status.st_size);
}

Input::Input(Descriptor file, std::uint64_t size, std::string path)
    : file_(std::move(file)), size_(size), path_(std::move(path)) {}

Input Input::of_memory(std::string bytes) {
  Input input;
  input.size_ = bytes.size();
  input.memory_ = std::move(bytes);
  return input;
}

void Input::read(std::uint64_t offset, void* to, std::size_t n) const {
  if (offset > size_ || n > size_ - offset) refuse(size_, "ends where {} bytes are expected at byte {}", n, offset);
  if (!file_) {
    if (n > 0) std::memcpy(to, memory_.data() + offset, n);
    return;
  }
  char* at = static_cast<char*>(to);
  while (n > 0) {
    const ssize_t got = pread(file_.get(), at, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Failure{kUnreadable, path_ + ": " + std::strerror(errno)};
    if (got == 0) refuse(offset, "has become shorter while it is read");
    at += got;
    offset += static_cast<std::uint64_t>(got);
    n -= static_cast<std::size_t>(got);
  }
}

}  // namespace cli::legacy
