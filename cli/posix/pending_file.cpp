// SPDX-License-Identifier: Apache-2.0
#include "pending_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <csignal>

namespace cli {
namespace {

constexpr std::array kSignals{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU};

// Globals, because a signal handler sees nothing else. The folder is set last and cleared first: while it is set, the
// name is complete.
std::array<char, NAME_MAX + 1> pending_name;
std::atomic<int> pending_folder{-1};
static_assert(std::atomic<int>::is_always_lock_free);

// The list: likewise, the folder is set last and cleared first.
std::atomic<const char* const*> list_names{nullptr};
std::atomic<const char*> list_made_folder{nullptr};
std::atomic<std::size_t> list_count{0};
std::atomic<const char*> list_making{nullptr};  // the next name, while its file is being made
std::atomic<int> list_waiting{0};               // the signal that waits until it has been
std::atomic<int> list_folder{-1};
static_assert(std::atomic<const char*>::is_always_lock_free && std::atomic<std::size_t>::is_always_lock_free);

// Whether a file has the name of the one that is being made, so that only the end of making tells whose it is.
bool is_undecided() {
  const int folder = list_folder.load();
  const char* const name = list_making.load();
  struct stat status {};
  return folder >= 0 && name != nullptr && fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

void remove_list() {
  const int folder = list_folder.load();
  if (folder < 0) return;
  for (std::size_t i = list_count.load(); i-- > 0;) unlinkat(folder, list_names.load()[i], 0);
  if (const char* const made = list_made_folder.load(); made != nullptr) rmdir(made);
}

extern "C" void remove_pending(int signal) {
  if (is_undecided() && list_waiting.exchange(signal) == 0) return;
  const int folder = pending_folder.load();
  if (folder >= 0) unlinkat(folder, pending_name.data(), 0);
  remove_list();
  std::signal(signal, SIG_DFL);
  raise(signal);  // which ends the process as soon as this returns
}

void install_handlers() {
  for (const int signal : kSignals) {
    struct sigaction action {};
    // A signal that the caller has ignored, as nohup does, stays ignored.
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = remove_pending;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void set_pending(int folder, const std::string& name) {
  clear_pending();
  const std::size_t length = std::min(name.size(), pending_name.size() - 1);
  *std::copy_n(name.begin(), length, pending_name.begin()) = '\0';
  pending_folder = folder;
  install_handlers();
}

void clear_pending() { pending_folder = -1; }

void set_pending_list(int folder, const char* const* names, const char* made_folder) {
  list_names = names;
  list_made_folder = made_folder;
  list_count = 0;
  list_making = nullptr;
  list_folder = folder;
  install_handlers();
}

void begin_pending() { list_making = list_names.load()[list_count.load()]; }

// The count goes up first: else a signal between the two would leave the file.
void end_pending(bool made) {
  if (made) ++list_count;
  list_making = nullptr;
  if (const int signal = list_waiting.load(); signal != 0) raise(signal);
}

void clear_pending_list() { list_folder = -1; }

void remove_pending_list() {
  remove_list();
  clear_pending_list();
}

}  // namespace cli
