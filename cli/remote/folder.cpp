// SPDX-License-Identifier: Apache-2.0
#include "folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "failure.hpp"
#include "io/posix/system.hpp"
#include "io/posix/target.hpp"
#include "output.hpp"
#include "system.hpp"

namespace cli {
namespace {

constexpr const char* kNewText = "new";  // while it is written
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

bool is_private(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & kOthersMayWrite) == 0;
}

// Returns whether a new file shows its owner and mode. Those of FAT and of Windows drives are the same for all files. Other
// users cannot exchange the file, because it is open. If it cannot be made, the answer is yes, which allows less.
bool does_keep_modes(int folder) {
  const std::string name = kPartsFolder + std::to_string(getpid());
  const st::io::Descriptor file = st::io::open_file(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!file) return true;
  (void)fchmod(file.get(), 0600);  // the umask may have taken more away
  struct stat status {};           // before the file loses its name: some mounts then show nothing of it
  const bool keeps = fstat(file.get(), &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 0777) == 0600;
  unlinkat(folder, name.c_str(), 0);
  return keeps;
}

}  // namespace

void fail_on_file(const std::string& path, int error) {
  throw Failure{kUnreadable, path + ": " + std::strerror(error)};
}

void sync_or_fail(const std::string& path, const st::io::Descriptor& file) {
  if (const int error = st::io::sync_now(file.get()); error != 0 && error != EINVAL && error != ENOTSUP) {
    fail_on_file(path, error);
  }
}

// ---- the model's folder

std::optional<struct stat> Place::status() const {
  struct stat found {};
  if (!folder) return std::nullopt;
  if (st::io::fresh_status(folder.get(), name.c_str(), found) == 0) return found;
  if (errno != ENOENT) fail_on_file(shown);
  return std::nullopt;
}

void Place::require_free(bool replace) const {
  const auto old = status();
  if (!old) return;
  if (!replace) throw Failure{kUnreadable, shown + ": already exists; --replace replaces it"};
  if (S_ISDIR(old->st_mode)) throw Failure{kUnreadable, shown + ": is a folder"};
  using Kind = st::io::Target::Kind;
  st::io::Target target;
  target.kind = S_ISLNK(old->st_mode) ? Kind::link : S_ISREG(old->st_mode) ? Kind::regular : Kind::stream;
  target.directory = st::io::duplicate(folder.get());
  target.name = name;
  target.shown = st::in_quotes(shown);
  target.status = *old;
  if (!target.directory) fail_on_file(shown);
  try {
    st::io::require_replaceable(target);
  } catch (const st::Error& error) {
    throw failure_in(
        shown, safetensors::Error(static_cast<st_status>(error.status), error.message, error.offset, error.os_error));
  }
}

ModelFolder::ModelFolder(const std::string& path) : path_(path) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) fail_on_file(path_, error.value());
  folder_ = st::io::open_file(AT_FDCWD, path_.c_str(), O_RDONLY | O_DIRECTORY);
  if (!folder_) fail_on_file(path_);
}

Place ModelFolder::place_of(const std::string& name, bool make_folders) const {
  Place place{st::io::duplicate(folder_.get()), name, in_folder(path_, name)};
  if (!place.folder) fail_on_file(path_);
  for (std::size_t slash; place.folder && (slash = place.name.find('/')) != name.npos;) {
    const std::string part = place.name.substr(0, slash);
    place.name.erase(0, slash + 1);
    const auto fail = [&] { fail_on_file(place.shown.substr(0, place.shown.size() - place.name.size() - 1)); };
    if (make_folders && mkdirat(place.folder.get(), part.c_str(), 0777) != 0 && errno != EEXIST) fail();
    place.folder = st::io::open_file(place.folder.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!place.folder && (make_folders || errno != ENOENT)) fail();
  }
  return place;
}

// ---- the folder of parts

PartsFolder::PartsFolder(const ModelFolder& model)
    : path_(in_folder(model.path(), kPartsFolder)), keeps_modes_(does_keep_modes(model.descriptor())) {
  if (mkdirat(model.descriptor(), kPartsFolder, 0700) != 0 && errno != EEXIST) fail_on_file(path_);
  folder_ = st::io::open_file(model.descriptor(), kPartsFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!folder_ && errno != ENOTDIR && errno != ELOOP && errno != EACCES) fail_on_file(path_);
  struct stat status {};
  if (!folder_ || fstat(folder_.get(), &status) != 0 || (keeps_modes_ && !is_private(status))) {
    throw Failure{kUnreadable, path_ + ": is not a folder that only this user may write to: delete it"};
  }
  lock_ = st::io::open_file(folder_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (!lock_ && errno != ELOOP && errno != EISDIR && errno != EACCES) fail_on_file(shown("lock"));
  if (!lock_ || !is_own(lock_)) {
    throw Failure{kUnreadable, path_ + ": contains files that are not this user's: delete it"};
  }
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Failure{kUnreadable, model.path() + ": another fetch is writing to this folder"};
  }
}

bool PartsFolder::is_own(const st::io::Descriptor& file) const {
  struct stat status {};
  return fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
         (!keeps_modes_ || is_private(status));
}

std::string PartsFolder::shown(const std::string& name) const { return in_folder(path_, name); }

st::io::Descriptor PartsFolder::open_own(const std::string& name, int flags) const {
  // O_NONBLOCK: a FIFO must not wait for its other end.
  st::io::Descriptor file = st::io::open_file(folder_.get(), name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK);
  if (file && is_own(file)) return file;
  if (!file && errno != ENOENT && errno != ELOOP && errno != EACCES) fail_on_file(shown(name));
  remove(name);
  return {};
}

st::io::Descriptor PartsFolder::create(const std::string& name) const {
  st::io::Descriptor file =
      st::io::open_file(folder_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!file) fail_on_file(shown(name));
  return file;
}

void PartsFolder::remove(const std::string& name) const { unlinkat(folder_.get(), name.c_str(), 0); }

std::string PartsFolder::read(const std::string& name) const {
  const st::io::Descriptor file = open_own(name, O_RDONLY);
  std::array<char, 16 << 10> text{};
  const ssize_t size = file ? pread(file.get(), text.data(), text.size(), 0) : 0;
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

void PartsFolder::write(const std::string& name, const std::string& text) const {
  remove(kNewText);  // of a process that was killed
  const st::io::Descriptor file = create(kNewText);
  const int error = st::io::write_all_at(file.get(), 0, text.data(), text.size());
  if (error != 0) fail_on_file(shown(name), error);
  if (renameat(folder_.get(), kNewText, folder_.get(), name.c_str()) != 0) fail_on_file(shown(name));
}

}  // namespace cli
