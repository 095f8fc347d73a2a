// SPDX-License-Identifier: Apache-2.0
#include "new_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "descriptor.hpp"
#include "failure.hpp"
#include "pending_file.hpp"

namespace cli {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw Failure{kUnreadable, path + ": " + std::strerror(error)};
}

// Makes the folders above a file; removing them again is not worth the trouble where a model is that unusual.
void make_folders_of(int folder, const std::string& name, const std::string& shown) {
  for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (mkdirat(folder, name.substr(0, slash).c_str(), 0777) != 0 && errno != EEXIST) fail(shown, errno);
  }
}

}  // namespace

struct NewFiles::State {
  std::string path;
  Descriptor folder;
  std::vector<std::string> names;
  std::vector<const char*> texts;
};

NewFiles::NewFiles(const std::string& folder, const std::vector<std::string>& names)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.path = folder;
  state.names = names;
  const bool made_folder = mkdir(folder.c_str(), 0777) == 0;
  if (!made_folder && errno != EEXIST) fail(folder, errno);
  state.folder = Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!state.folder) fail(folder, errno);
  for (const std::string& name : state.names) {
    struct stat status {};
    std::string shown = folder;
    shown.append("/").append(name);
    if (fstatat(state.folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      throw Failure{kUnreadable, shown + ": exists already"};
    }
    make_folders_of(state.folder.get(), name, shown);
    state.texts.push_back(name.c_str());
  }
  set_pending_list(state.folder.get(), state.texts.data(), made_folder ? state.path.c_str() : nullptr);
}

NewFiles::~NewFiles() {
  if (!state_) return;
  remove_pending_list();
}

void NewFiles::begin_next() { begin_pending(); }

void NewFiles::end_next(bool made) { end_pending(made); }

void NewFiles::keep() {
  clear_pending_list();
  state_.reset();
}

}  // namespace cli
