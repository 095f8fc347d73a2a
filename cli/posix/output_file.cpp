// SPDX-License-Identifier: Apache-2.0
#include "output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "failure.hpp"
#include "formatted.hpp"
#include "pending_file.hpp"
#include "permissions.hpp"
#include "system.hpp"

namespace cli {
namespace {

constexpr mode_t kNewMode = 0666;  // less the umask
constexpr mode_t kClosedMode = 0600;
constexpr int kMostNames = 100;

// Random, so that nobody can create a file of this name first.
std::string random_name(const std::string& name) {
  constexpr std::size_t kMostOfName = 200;  // of the 255 bytes that a name may have
  std::random_device random;
  return formatted(".{}.{:08x}{:08x}", name.substr(0, kMostOfName), random(), random());
}

std::string without_links(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  return real ? std::string(real.get()) : std::string();
}

}  // namespace

OutputFile::OutputFile(const std::string& path, const Inputs& inputs, bool may_replace)
    : inputs_(inputs),
      may_replace_(may_replace),
      standard_(path.empty()),
      shown_(path.empty() ? "standard output" : path) {
  const int number = path.empty() ? STDOUT_FILENO : descriptor_of(path);
  try {
    number >= 0 ? open_descriptor(number) : open_path(path);
  } catch (...) {
    drop();
    throw;
  }
}

OutputFile::~OutputFile() { drop(); }

void OutputFile::open_descriptor(int number) {
  refuse_terminal(number);
  file_ = Descriptor(fcntl(number, F_DUPFD_CLOEXEC, 0));
  if (!file_) fail(errno);
  refuse_input(file_.get());
}

void OutputFile::open_path(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) fail(errno);
    if (lstat(path.c_str(), &status) == 0) throw Failure{kUnreadable, path + ": a symbolic link to nothing"};
    return open_beside(path, /*replaces=*/false);
  }
  if (!may_replace_) fail(EEXIST);
  const std::string real = without_links(path);
  if (real.empty()) fail(errno);
  if (S_ISREG(status.st_mode)) return open_beside(real, /*replaces=*/true);
  if (S_ISDIR(status.st_mode)) fail(EISDIR);
  if (S_ISSOCK(status.st_mode)) throw Failure{kUnreadable, path + ": a socket, which cannot be written as a file"};
  open_stream(real);
}

// Waits until a FIFO has a reader. Creates and truncates nothing, even if another file has taken the path's place.
void OutputFile::open_stream(const std::string& path) {
  file_ = Descriptor(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW));
  struct stat status {};
  if (!file_ || fstat(file_.get(), &status) != 0) fail(errno);
  if (S_ISREG(status.st_mode)) throw Failure{kUnreadable, shown_ + ": has become another file"};
  refuse_terminal(file_.get());
}

void OutputFile::open_beside(const std::string& path, bool replaces) {
  const std::size_t slash = path.rfind('/');
  name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name_.empty() || name_ == "." || name_ == "..") fail(path.empty() ? ENOENT : EISDIR);
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  folder_ = Descriptor(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder_) fail(errno);
  if (!replaces) return create_beside(kNewMode);

  // A rename needs only the rights to the folder, but a read-only file should stay as it is.
  const Descriptor old(openat(folder_.get(), name_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!old) fail(errno);
  refuse_input(old.get());
  create_beside(kClosedMode);
  if (const int error = hand_on_permissions(old.get(), file_.get()); error != 0) fail(error);
}

void OutputFile::create_beside(mode_t mode) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  for (int i = 0; i < kMostNames; ++i) {
    new_name_ = random_name(name_);
    set_pending(folder_.get(), new_name_);  // before the file exists, so that no signal leaves it behind
    file_ = Descriptor(openat(folder_.get(), new_name_.c_str(), kFlags, mode));
    if (file_) return;
    const int error = errno;
    clear_pending();
    new_name_.clear();
    if (error != EEXIST) fail(error);
  }
  fail(EEXIST);
}

void OutputFile::write(const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file_.get(), at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    at += written;
    size -= static_cast<std::size_t>(written);
  }
}

void OutputFile::finish() {
  if (file_.close() != 0) fail(errno);
  if (!new_name_.empty()) publish();
}

// Refuses if an input was moved to this path while the bytes were written.
void OutputFile::publish() {
  struct stat status {};
  if (fstatat(folder_.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && inputs_.contain(status)) {
    throw Failure{kUsage, shown_ + ": is the file that is read"};
  }
  // A link replaces nothing, and a filesystem without links gets the renaming.
  const bool is_linked =
      !may_replace_ && linkat(folder_.get(), new_name_.c_str(), folder_.get(), name_.c_str(), 0) == 0;
  if (is_linked) return drop();
  if (!may_replace_ && errno == EEXIST) fail(errno);
  if (renameat(folder_.get(), new_name_.c_str(), folder_.get(), name_.c_str()) != 0) fail(errno);
  new_name_.clear();
  clear_pending();
}

void OutputFile::refuse_input(int descriptor) const {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail(errno);
  if (inputs_.contain(status)) throw Failure{kUsage, shown_ + ": is the file that is read"};
}

void OutputFile::drop() {
  if (new_name_.empty()) return;
  unlinkat(folder_.get(), new_name_.c_str(), 0);
  new_name_.clear();
  clear_pending();
}

void OutputFile::fail(int os_error) const {
  if (os_error == EPIPE && standard_ && readers_may_leave())
    throw Failure{kSuccess, ""};  // the reader has closed its end
  throw Failure{kUnreadable, shown_ + ": " + std::strerror(os_error)};
}

}  // namespace cli
