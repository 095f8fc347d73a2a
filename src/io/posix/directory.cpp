// Directories on a disk, and which links may lead out of them.
// SPDX-License-Identifier: Apache-2.0
#include "io/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/posix/file_source.hpp"
#include "io/posix/system.hpp"

namespace st::io {

namespace {

// Returns CACHE/models--x for CACHE/models--x/snapshots/REVISION[/...], otherwise an empty path.
std::string_view cache_of(std::string_view directory) {
  const std::size_t at = directory.rfind("/snapshots/");
  return at == directory.npos ? std::string_view() : directory.substr(0, at);
}

class DiskDirectory final : public Directory {
 public:
  DiskDirectory(Descriptor descriptor, const std::string& path) : descriptor_(std::move(descriptor)), path_(path) {}

  const std::string& path() const override { return path_; }
  std::vector<std::string> names() const override;
  std::unique_ptr<Source> open(const std::string& name, bool follow_links) const override;
  bool changed_lately() const override;
  bool leads_to(const std::string& name, const Source& source) const override;

 private:
  bool contains(const RegularFile& file) const;

  Descriptor descriptor_;
  std::string path_;
  std::time_t opened_ = std::time(nullptr);
};

std::vector<std::string> DiskDirectory::names() const {
  Descriptor copy = open_file(descriptor_.get(), ".", O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(copy ? fdopendir(copy.get()) : nullptr, closedir);
  if (!stream) fail_os(Status::open, errno, "{}", in_quotes(path_));
  copy.release();  // closedir closes it
  std::vector<std::string> names;
  for (;;) {
    errno = 0;  // readdir() returns nullptr at the end and on errors
    const dirent* const entry = readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) fail_os(Status::open, errno, "the directory {}", in_quotes(path_));
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Source> DiskDirectory::open(const std::string& name, bool follow_links) const {
  const bool plain_name = name.find('/') == name.npos;
  struct stat status {};
  const bool link =
      fstatat(descriptor_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  const std::string path = path_ + (path_.back() == '/' ? "" : "/") + name;
  RegularFile file = RegularFile::open_at(descriptor_.get(), name.c_str(), path, /*may_be_link=*/link || !plain_name);
  if ((link || !plain_name) && !follow_links && !contains(file)) {
    fail(Status::shard, "shard {} is a link that leaves the directory of its index", in_quotes(name));
  }
  const std::uint64_t size = file.size();
  return std::make_unique<FileSource>(std::move(file), 0, size, link);
}

// A rename changes the times of the directory.
bool DiskDirectory::changed_lately() const {
  struct stat status {};
  return fresh_status(descriptor_.get(), status) != 0 || io::changed_lately(status, opened_);
}

bool DiskDirectory::leads_to(const std::string& name, const Source& source) const {
  struct stat status {};
  if (fstatat(descriptor_.get(), name.c_str(), &status, 0) != 0) fail_os(Status::open, errno, "{}", in_quotes(name));
  return source.identity()->same_file(identity_of(status));
}

bool DiskDirectory::contains(const RegularFile& file) const {
  const std::string directory = real_path(descriptor_.get(), path_);
  const std::string target = real_path(file.descriptor(), file.path());
  if (directory.empty() || target.empty()) return false;
  const auto below = [&target](std::string_view parent) {
    return target.size() > parent.size() && starts_with(target, parent) && target[parent.size()] == '/';
  };
  const std::string_view cache = cache_of(directory);
  return below(directory) || (!cache.empty() && below(std::string(cache) + "/blobs"));
}

}  // namespace

SplitPath split_path(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return {".", std::string(path)};
  return {std::string(slash == 0 ? "/" : path.substr(0, slash)), std::string(path.substr(slash + 1))};
}

std::unique_ptr<Directory> open_directory(const std::string& path) {
  Descriptor opened = open_directory_for_lookup(AT_FDCWD, path.c_str());  // its names may be unreadable
  if (!opened) fail_os(Status::open, errno, "{}", in_quotes(path));
  return std::make_unique<DiskDirectory>(std::move(opened), path);
}

}  // namespace st::io
