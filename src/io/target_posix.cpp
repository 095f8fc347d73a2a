// SPDX-License-Identifier: Apache-2.0
#include "io/target.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

#include "base/error.hpp"

namespace st::io {

namespace {

constexpr int kMostLinks = 40;  // as the kernel

// Opening these again would give a second place in a redirected file, at its beginning: `>>` would overwrite.
bool is_descriptor(std::string_view path, std::string& number) {
  if (path == "/dev/stdout") number = "1";
  if (path == "/dev/stderr") number = "2";
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (path.starts_with(folder)) number = path.substr(folder.size());
  }
  return !number.empty() && number.size() <= 7 && number.find_first_not_of("0123456789") == std::string::npos;
}

// One step: the folder of `path`, seen from `target.folder`, and the name in it.
void step(Target& target, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  target.name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (target.name.empty() || target.name == "." || target.name == "..") {
    fail_os(Status::open, path.empty() ? ENOENT : EISDIR, "{}", target.shown);
  }
  const int from = target.folder ? target.folder.get() : AT_FDCWD;
  Descriptor next(openat(from, folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!next) fail_os(Status::open, errno, "{}", target.shown);
  target.folder = std::move(next);
}

std::string read_link(const Target& target) {
  std::array<char, PATH_MAX> text;
  const ssize_t n = readlinkat(target.folder.get(), target.name.c_str(), text.data(), text.size());
  if (n < 0) fail_os(Status::open, errno, "{}", target.shown);
  return {text.data(), static_cast<std::size_t>(n)};
}

Target::Kind kind_of(const Target& target) {
  const mode_t mode = target.status.st_mode;
  if (S_ISREG(mode)) return Target::Kind::regular;
  if (S_ISFIFO(mode) || S_ISCHR(mode) || S_ISBLK(mode)) return Target::Kind::stream;
  if (S_ISDIR(mode)) fail_os(Status::open, EISDIR, "{}", target.shown);
  fail(Status::open, "{} is a socket, which cannot be written as a file", target.shown);
}

}  // namespace

Target find_target(const char* path) {
  Target target;
  target.shown = quoted(path);
  std::string rest = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    if (is_descriptor(rest, target.name)) {
      target.kind = Target::Kind::descriptor;
      return target;
    }
    step(target, rest);
    if (fstatat(target.folder.get(), target.name.c_str(), &target.status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) fail_os(Status::open, errno, "{}", target.shown);
      return target;
    }
    if (!S_ISLNK(target.status.st_mode)) {
      target.kind = kind_of(target);
      return target;
    }
    target.through_link = true;
    rest = read_link(target);
  }
  fail_os(Status::open, ELOOP, "{}", target.shown);
}

}  // namespace st::io
