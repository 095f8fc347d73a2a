// SPDX-License-Identifier: Apache-2.0
#include "inputs.hpp"

#include <algorithm>
#include <optional>

#include "failure.hpp"
#include "system.hpp"
#include "windows_text.hpp"

namespace cli {
namespace {

std::optional<FileNumber> number_of(HANDLE file) {
  BY_HANDLE_FILE_INFORMATION info{};
  if (GetFileInformationByHandle(file, &info) == FALSE) return std::nullopt;
  return FileNumber{info.dwVolumeSerialNumber,
                    static_cast<std::uint64_t>(info.nFileIndexHigh) << 32 | info.nFileIndexLow};
}

std::optional<FileNumber> number_of(const std::string& path) {
  const Handle file = handle_of(CreateFileW(native_path(path).c_str(), FILE_READ_ATTRIBUTES, kShareAll, nullptr,
                                            OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr));
  return file ? number_of(file.get()) : std::nullopt;
}

// The library does not say which index of a folder it has opened, so that all of them count as inputs.
std::vector<std::string> indexes_in(const std::string& path) {
  std::vector<std::string> found;
  WIN32_FIND_DATAW entry{};
  const HANDLE search = FindFirstFileW(native_path(path + "\\*.index.json").c_str(), &entry);
  if (search == INVALID_HANDLE_VALUE) return found;
  do {
    if (const auto name = utf8(entry.cFileName)) found.push_back(path + "\\" + *name);
  } while (FindNextFileW(search, &entry) != FALSE);
  FindClose(search);
  return found;
}

}  // namespace

Inputs::Inputs(const std::string& path, const safetensors::SafeOpen& file) {
  add(path);
  for (const std::string& index : indexes_in(path)) add(index);
  for (std::size_t i = 0; i < file.count_shards(); ++i) add(std::string(file.shard_path(i)));
}

Inputs::Inputs(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) add(path);
}

void Inputs::add(const std::string& path) {
  if (const auto number = number_of(path)) files_.push_back(*number);
}

bool Inputs::contain(const FileNumber& number) const {
  return std::find(files_.begin(), files_.end(), number) != files_.end();
}

bool Inputs::contain_path(const std::string& path) const {
  const auto number = number_of(path);
  return number && contain(*number);
}

bool Inputs::contain_standard_output() const {
  const auto number = number_of(GetStdHandle(STD_OUTPUT_HANDLE));
  return number && contain(*number);
}

void refuse_terminal() {
  if (output_is_terminal()) throw Failure{kUsage, "raw bytes to a terminal: redirect them, or pipe them through cat"};
}

void check_output(const std::string& into, const Inputs& inputs, bool is_model) {
  const bool standard = into == "/dev/stdout";
  if (standard ? inputs.contain_standard_output() : is_model && inputs.contain_path(into)) {
    throw Failure{kUsage, into + ": is the file that is read"};
  }
  if (standard) refuse_terminal();
}

}  // namespace cli
