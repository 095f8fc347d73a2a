// Directories: lists names, and opens files without leaving the directory.
// SPDX-License-Identifier: Apache-2.0
#include "io/win32/directory.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/directory.hpp"
#include "io/win32/file_source.hpp"

namespace st::io {

// ---- names --------------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  fail(Status::shard, "shard {} {}, and cannot be a file of its directory on Windows", in_quotes(name), why);
}

// The digits 1 to 9, and the superscript digits 1 to 3 in UTF-8.
bool is_port_number(std::string_view text) {
  return (text.size() == 1 && text[0] >= '1' && text[0] <= '9') || text == "\xC2\xB9" || text == "\xC2\xB2" ||
         text == "\xC2\xB3";
}

// Windows ignores everything from the first dot or colon on, and spaces before it.
bool is_device(std::string_view part) {
  std::string name(part.substr(0, part.find('.')));
  name.erase(name.find_last_not_of(' ') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  constexpr std::array<std::string_view, 7> kDevices{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"};
  if (std::find(kDevices.begin(), kDevices.end(), name) != kDevices.end()) return true;
  return (starts_with(name, "COM") || starts_with(name, "LPT")) && is_port_number(std::string_view(name).substr(3));
}

void require_part(std::string_view part, std::string_view whole) {
  if (part.empty()) refuse(whole, "has an empty component");
  if (part == "." || part == "..") refuse(whole, "has a component '.' or '..'");
  if (part.back() == '.' || part.back() == ' ') refuse(whole, "has a component that ends with a dot or a space");
  if (is_device(part)) refuse(whole, "is the name of a device");
}

}  // namespace

void require_file_name(std::string_view name) {
  const auto is_reserved = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || std::string_view("\\:*?\"<>|").find(c) != std::string_view::npos;
  };
  if (std::any_of(name.begin(), name.end(), is_reserved)) refuse(name, "contains a character that Windows reserves");
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    require_part(name.substr(at, end - at), name);
    at = end + 1;
  }
}

SplitPath split_path(std::string_view path) {
  const std::size_t end = path.find_last_of("/\\:");
  if (end == path.npos) return {".", std::string(path)};
  // "C:\", "C:" and the root keep their last character.
  const bool keeps_end = end == 0 || path[end] == ':' || path[end - 1] == ':';
  return {std::string(path.substr(0, end + (keeps_end ? 1 : 0))), std::string(path.substr(end + 1))};
}

// ---- directories --------------------------------------------------------------------------------------------------

namespace {

constexpr std::wstring_view kSnapshots = L"\\snapshots\\";

// Returns CACHE\models--x for CACHE\models--x\snapshots\REVISION[\...], otherwise an empty path.
std::wstring_view cache_of(std::wstring_view directory) {
  const std::size_t at = directory.rfind(kSnapshots);
  return at == directory.npos ? std::wstring_view() : directory.substr(0, at);
}

class DiskDirectory final : public Directory {
 public:
  DiskDirectory(Handle handle, std::wstring native, const std::string& path)
      : handle_(std::move(handle)), native_(std::move(native)), path_(path) {}

  const std::string& path() const override { return path_; }
  std::vector<std::string> names() const override;
  std::unique_ptr<Source> open(const std::string& name, bool follow_links) const override;

 private:
  std::string shown_path(const std::string& name) const;
  bool contains(const RegularFile& file) const;

  Handle handle_;
  std::wstring native_;
  std::string path_;
};

// Omits names that are not UTF-16, since no path in UTF-8 leads to them.
std::vector<std::string> DiskDirectory::names() const {
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
  if (error != ERROR_NO_MORE_FILES && !empty_root) fail_os(Status::open, error, "the directory {}", in_quotes(path_));
  std::sort(names.begin(), names.end());
  return names;
}

std::string DiskDirectory::shown_path(const std::string& name) const {
  const bool separated = ends_with(path_, "/") || ends_with(path_, "\\");
  const bool backslashes = path_.find('\\') != path_.npos && path_.find('/') == path_.npos;
  return path_ + (separated ? "" : backslashes ? "\\" : "/") + name;
}

std::unique_ptr<Source> DiskDirectory::open(const std::string& name, bool follow_links) const {
  require_file_name(name);
  const std::optional<std::wstring> wide = to_wide(name);
  if (!wide) fail(Status::shard, "the name of shard {} is not UTF-8", in_quotes(name));
  RegularFile file = RegularFile::open(below(native_, *wide), shown_path(name));
  if (!follow_links && !contains(file)) {
    fail(Status::shard, "shard {} is a link that leaves the directory of its index", in_quotes(name));
  }
  const std::uint64_t size = file.size();
  return std::make_unique<FileSource>(std::move(file), 0, size);
}

bool DiskDirectory::contains(const RegularFile& file) const {
  std::wstring directory = final_path(handle_.get());
  std::wstring target = final_path(file.handle());
  if (directory.empty() || target.empty()) {
    const auto own = identity_of(handle_.get());
    if (!own || own->device != file.identity().device) return false;
    directory = path_on_volume(handle_.get());
    target = path_on_volume(file.handle());
  }
  if (directory.empty() || target.empty()) return false;
  const auto is_below = [&target](std::wstring parent) {
    if (!ends_with(parent, L"\\")) parent += L'\\';  // only a drive's root ends with a backslash
    return target.size() > parent.size() && starts_with(target, parent);
  };
  const std::wstring_view cache = cache_of(directory);
  return is_below(directory) || (!cache.empty() && is_below(std::wstring(cache) + L"\\blobs"));
}

}  // namespace

std::unique_ptr<Directory> open_directory(const std::string& path) {
  std::wstring native = native_path(path);
  Handle handle = open_existing(native, FILE_LIST_DIRECTORY, FILE_FLAG_BACKUP_SEMANTICS);  // required for directories
  if (!handle) fail_os(Status::open, last_error(), "{}", in_quotes(path));
  if (!is_directory(handle.get())) fail_os(Status::open, ERROR_DIRECTORY, "{}", in_quotes(path));
  return std::make_unique<DiskDirectory>(std::move(handle), std::move(native), path);
}

}  // namespace st::io
