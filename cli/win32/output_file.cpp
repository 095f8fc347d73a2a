// SPDX-License-Identifier: Apache-2.0
#include "output_file.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "failure.hpp"
#include "formatted.hpp"
#include "permissions.hpp"
#include "system.hpp"

namespace cli {
namespace {

constexpr int kMostNames = 100;
constexpr std::size_t kMostAtOnce = std::size_t{64} << 20;

// Random, so that nobody can create a file of this name first.
std::string random_name(const std::string& name) {
  constexpr std::size_t kMostOfName = 60;  // of 255 characters, which have up to four bytes
  std::size_t kept = std::min(name.size(), kMostOfName);
  while (kept < name.size() && kept > 0 && (static_cast<unsigned char>(name[kept]) & 0xC0U) == 0x80U) --kept;
  std::random_device random;
  return formatted(".{}.{:08x}{:08x}", name.substr(0, kept), random(), random());
}

bool is_device(const std::wstring& path) { return path.starts_with(L"\\\\.\\"); }

}  // namespace

OutputFile::OutputFile(const std::string& path, const Inputs& inputs, bool may_replace)
    : inputs_(inputs), may_replace_(may_replace), path_(path == "/dev/stdout" ? "" : path) {
  if (!path_.empty()) {
    const std::wstring native = native_path(path_);
    is_device(native) ? open_device(native) : open_beside(native);
    return;
  }
  refuse_terminal();
  if (inputs_.contain_standard_output()) throw Failure{kUsage, "standard output: is the file that is read"};
}

void OutputFile::open_device(const std::wstring& path) {
  file_ = handle_of(CreateFileW(path.c_str(), GENERIC_WRITE, kShareAll, nullptr, OPEN_EXISTING,
                                SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION, nullptr));
  if (!file_) fail(GetLastError());
  if (GetFileType(file_.get()) == FILE_TYPE_DISK) throw Failure{kUsage, path_ + ": is a disk"};
}

void OutputFile::open_beside(const std::wstring& target) {
  name_ = file_name(path_);
  if (name_.empty() || is_folder(path_)) throw Failure{kUnreadable, path_ + ": Is a directory"};
  if (inputs_.contain_path(path_)) throw Failure{kUsage, path_ + ": is the file that is read"};
  const DWORD attributes = GetFileAttributesW(target.c_str());
  if (attributes != INVALID_FILE_ATTRIBUTES && !may_replace_) fail(ERROR_FILE_EXISTS);
  if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_READONLY) != 0) fail(ERROR_ACCESS_DENIED);
  create_beside();
  if (const DWORD error = hand_on_permissions(target, file_.get()); error != 0) fail(error);
}

void OutputFile::create_beside() {
  const std::string folder = path_.substr(0, path_.size() - name_.size());
  for (int i = 0; i < kMostNames; ++i) {
    const std::wstring path = native_path(folder + random_name(name_));
    file_ = handle_of(CreateFileW(path.c_str(), GENERIC_WRITE | DELETE | READ_CONTROL | WRITE_DAC, FILE_SHARE_DELETE,
                                  nullptr, CREATE_NEW, 0, nullptr));
    const DWORD error = file_ ? mark_deleted(true) : GetLastError();
    if (error == 0) return;
    if (error != ERROR_FILE_EXISTS) fail(error);
  }
  fail(ERROR_FILE_EXISTS);
}

DWORD OutputFile::mark_deleted(bool deleted) {
  FILE_DISPOSITION_INFO info{};
  info.DeleteFile = deleted ? TRUE : FALSE;
  return SetFileInformationByHandle(file_.get(), FileDispositionInfo, &info, sizeof info) != FALSE ? 0 : GetLastError();
}

void OutputFile::write(const void* data, std::size_t size) {
  const HANDLE to = file_ ? file_.get() : GetStdHandle(STD_OUTPUT_HANDLE);
  for (const char* at = static_cast<const char*>(data); size > 0;) {
    DWORD written = 0;
    if (WriteFile(to, at, static_cast<DWORD>(std::min(size, kMostAtOnce)), &written, nullptr) == FALSE)
      fail(GetLastError());
    at += written;
    size -= written;
  }
}

void OutputFile::finish() {
  if (!name_.empty()) publish();
}

// Refuses if an input was moved to this path while the bytes were written.
void OutputFile::publish() {
  if (inputs_.contain_path(path_)) throw Failure{kUsage, path_ + ": is the file that is read"};
  const std::wstring path = native_path(path_);
  std::vector<char> memory(sizeof(FILE_RENAME_INFO) + path.size() * sizeof(wchar_t));
  auto* const info = reinterpret_cast<FILE_RENAME_INFO*>(memory.data());
  info->ReplaceIfExists = may_replace_ ? TRUE : FALSE;
  info->FileNameLength = static_cast<DWORD>(path.size() * sizeof(wchar_t));
  std::memcpy(info->FileName, path.data(), info->FileNameLength);
  DWORD error = mark_deleted(false);  // else the file would go with its handle
  const auto size = static_cast<DWORD>(memory.size());
  if (error == 0 && SetFileInformationByHandle(file_.get(), FileRenameInfo, info, size) == FALSE) {
    error = GetLastError();
  }
  if (error != 0) {
    mark_deleted(true);
    fail(error);
  }
  file_.reset();
}

void OutputFile::fail(DWORD error) const {
  const bool closed = error == ERROR_BROKEN_PIPE || error == ERROR_NO_DATA;
  if (closed && path_.empty()) throw Failure{kSuccess, ""};  // the reader has closed its end
  throw Failure{kUnreadable, (path_.empty() ? "standard output" : path_) + ": " + system_words(error)};
}

}  // namespace cli
