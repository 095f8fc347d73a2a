// SPDX-License-Identifier: Apache-2.0
#include "new_files.hpp"

#include "failure.hpp"
#include "windows_text.hpp"

namespace cli {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Failure{kUnreadable, path + ": " + system_words(GetLastError())};
}

}  // namespace

struct NewFiles::State {
  std::string path;
  std::vector<std::wstring> names;
  std::size_t begun = 0;
  bool made_folder = false;
};

NewFiles::NewFiles(const std::string& folder, const std::vector<std::string>& names)
    : state_(std::make_unique<State>()) {
  state_->path = folder;
  state_->made_folder = CreateDirectoryW(native_path(folder).c_str(), nullptr) != FALSE;
  if (!state_->made_folder && GetLastError() != ERROR_ALREADY_EXISTS) fail(folder);
  for (const std::string& name : names) {
    const std::string path = folder + "\\" + name;
    if (GetFileAttributesW(native_path(path).c_str()) != INVALID_FILE_ATTRIBUTES) {
      throw Failure{kUnreadable, path + ": exists already"};
    }
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      CreateDirectoryW(native_path(folder + "\\" + name.substr(0, slash)).c_str(), nullptr);
    }
    state_->names.push_back(native_path(path));
  }
}

NewFiles::~NewFiles() {
  if (!state_) return;
  for (std::size_t i = 0; i < state_->begun; ++i) DeleteFileW(state_->names[i].c_str());
  if (state_->made_folder) RemoveDirectoryW(native_path(state_->path).c_str());
}

void NewFiles::begin_next() { ++state_->begun; }

void NewFiles::drop_last() { --state_->begun; }

void NewFiles::keep() { state_.reset(); }

}  // namespace cli
