// SPDX-License-Identifier: Apache-2.0
#include "new_files.hpp"

#include "failure.hpp"
#include "windows_text.hpp"

namespace cli {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Failure{kUnreadable, path + ": " + system_words(GetLastError())};
}

// What Ctrl-C is to remove. The system calls the handler in a thread of its own, which keeps the lock: no other file is
// begun until the process has ended.
struct Pending {
  SRWLOCK lock = SRWLOCK_INIT;
  const std::vector<std::wstring>* names = nullptr;
  std::size_t begun = 0;
  const std::wstring* made_folder = nullptr;
};
Pending pending;

class Locked {
 public:
  Locked() { AcquireSRWLockExclusive(&pending.lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { ReleaseSRWLockExclusive(&pending.lock); }
};

void remove_begun() {
  for (std::size_t i = 0; pending.names != nullptr && i < pending.begun; ++i) DeleteFileW((*pending.names)[i].c_str());
  if (pending.made_folder != nullptr) RemoveDirectoryW(pending.made_folder->c_str());
}

BOOL WINAPI remove_and_end(DWORD) {
  AcquireSRWLockExclusive(&pending.lock);
  remove_begun();
  return FALSE;  // the next handler, the system's, ends the process
}

}  // namespace

struct NewFiles::State {
  std::wstring folder;
  std::vector<std::wstring> names;
};

NewFiles::NewFiles(const std::string& folder, const std::vector<std::string>& names)
    : state_(std::make_unique<State>()) {
  state_->folder = native_path(folder);
  const bool made = CreateDirectoryW(state_->folder.c_str(), nullptr) != FALSE;
  if (!made && GetLastError() != ERROR_ALREADY_EXISTS) fail(folder);
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
  const Locked locked;
  pending.names = &state_->names;
  pending.begun = 0;
  pending.made_folder = made ? &state_->folder : nullptr;
  SetConsoleCtrlHandler(remove_and_end, TRUE);
}

NewFiles::~NewFiles() {
  if (!state_) return;
  const Locked locked;
  remove_begun();
  pending.names = nullptr;
  pending.made_folder = nullptr;
}

void NewFiles::begin_next() {
  const Locked locked;
  ++pending.begun;
}

// On this system a signal also removes what somebody else has made meanwhile under the name that comes next.
void NewFiles::end_next(bool made) {
  if (made) return;
  const Locked locked;
  --pending.begun;
}

void NewFiles::keep() {
  const Locked locked;
  pending.names = nullptr;
  pending.made_folder = nullptr;
  state_.reset();
}

}  // namespace cli
