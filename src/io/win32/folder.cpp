// SPDX-License-Identifier: Apache-2.0
#include "io/directory.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "io/win32/file_source.hpp"
#include "io/win32/identity.hpp"
#include "io/win32/path.hpp"
#include "io/win32/shard_name.hpp"
#include "io/win32/text.hpp"

namespace st::io {

namespace {

constexpr std::wstring_view kSnapshots = L"\\snapshots\\";

// CACHE\models--x\snapshots\REVISION[\...] -> CACHE\models--x, or nothing.
std::wstring_view cache_of(std::wstring_view folder) {
  const std::size_t at = folder.rfind(kSnapshots);
  return at == folder.npos ? std::wstring_view() : folder.substr(0, at);
}

class DiskFolder final : public Directory {
 public:
  DiskFolder(Handle handle, std::wstring native, const std::string& path)
      : handle_(std::move(handle)), native_(std::move(native)), path_(path) {}

  const std::string& path() const override { return path_; }
  std::vector<std::string> names() const override;
  std::unique_ptr<Source> open(const std::string& name, bool follow_links) const override;

 private:
  std::string shown_path(const std::string& name) const;
  bool contains(const PlainFile& file) const;

  Handle handle_;
  std::wstring native_;
  std::string path_;
};

// Names that are not UTF-16 are left out: no path in UTF-8 leads to them.
std::vector<std::string> DiskFolder::names() const {
  std::vector<std::string> names;
  WIN32_FIND_DATAW entry{};
  const HANDLE search = FindFirstFileExW(below(native_, L"*").c_str(), FindExInfoBasic, &entry, FindExSearchNameMatch,
                                         nullptr, FIND_FIRST_EX_LARGE_FETCH);
  int error = search == INVALID_HANDLE_VALUE ? last_error() : 0;
  while (error == 0) {
    const std::wstring_view name = entry.cFileName;
    std::optional<std::string> text = name == L"." || name == L".." ? std::nullopt : to_utf8(name);
    if (text) names.push_back(std::move(*text));
    if (FindNextFileW(search, &entry) == FALSE) error = last_error();
  }
  if (search != INVALID_HANDLE_VALUE) FindClose(search);
  const bool empty_root = search == INVALID_HANDLE_VALUE && error == ERROR_FILE_NOT_FOUND;
  if (error != ERROR_NO_MORE_FILES && !empty_root) fail_os(Status::open, error, "the folder {}", in_quotes(path_));
  std::sort(names.begin(), names.end());
  return names;
}

std::string DiskFolder::shown_path(const std::string& name) const {
  const bool separated = path_.ends_with('/') || path_.ends_with('\\');
  const bool backslashes = path_.find('\\') != path_.npos && path_.find('/') == path_.npos;
  return path_ + (separated ? "" : backslashes ? "\\" : "/") + name;
}

std::unique_ptr<Source> DiskFolder::open(const std::string& name, bool follow_links) const {
  require_file_name(name);
  const std::optional<std::wstring> wide = to_wide(name);
  if (!wide) fail(Status::shard, "the name of shard {} is not UTF-8", in_quotes(name));
  PlainFile file = PlainFile::open(below(native_, *wide), shown_path(name));
  if (!follow_links && !contains(file)) {
    fail(Status::shard, "shard {} is a link that leaves the folder of its index", in_quotes(name));
  }
  const std::uint64_t size = file.size();
  return std::make_unique<FileSource>(std::move(file), 0, size);
}

bool DiskFolder::contains(const PlainFile& file) const {
  std::wstring folder = final_path(handle_.get());
  std::wstring target = final_path(file.handle());
  if (folder.empty() || target.empty()) {
    const auto own = identity_of(handle_.get());
    if (!own || own->device != file.identity().device) return false;
    folder = path_on_volume(handle_.get());
    target = path_on_volume(file.handle());
  }
  if (folder.empty() || target.empty()) return false;
  const auto is_below = [&target](std::wstring parent) {
    if (!parent.ends_with(L'\\')) parent += L'\\';  // only a drive's own folder has it
    return target.size() > parent.size() && target.starts_with(parent);
  };
  const std::wstring_view cache = cache_of(folder);
  return is_below(folder) || (!cache.empty() && is_below(std::wstring(cache) + L"\\blobs"));
}

}  // namespace

SplitPath split_path(std::string_view path) {
  const std::size_t end = path.find_last_of("/\\:");
  if (end == path.npos) return {".", std::string(path)};
  // "C:\" and "C:" are folders with their ends, as is the root.
  const bool keeps_end = end == 0 || path[end] == ':' || path[end - 1] == ':';
  return {std::string(path.substr(0, end + (keeps_end ? 1 : 0))), std::string(path.substr(end + 1))};
}

std::unique_ptr<Directory> open_directory(const std::string& path) {
  std::wstring native = native_path(path);
  constexpr DWORD kFlags = FILE_FLAG_BACKUP_SEMANTICS | kNotActedFor;  // without the first, folders cannot be opened
  Handle handle(CreateFileW(native.c_str(), FILE_LIST_DIRECTORY, kShareAll, nullptr, OPEN_EXISTING, kFlags, nullptr));
  if (!handle) fail_os(Status::open, last_error(), "{}", in_quotes(path));
  if (!is_folder(handle.get())) fail_os(Status::open, ERROR_DIRECTORY, "{}", in_quotes(path));
  return std::make_unique<DiskFolder>(std::move(handle), std::move(native), path);
}

}  // namespace st::io
