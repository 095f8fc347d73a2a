// SPDX-License-Identifier: Apache-2.0
#include "inputs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "descriptor.hpp"
#include "failure.hpp"

namespace cli {
namespace {

// The library does not say which index of a folder it has opened, so that all of them count as inputs.
std::vector<std::string> indexes_in(const std::string& path) {
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (std::string name = at->path().string(); name.ends_with(".index.json")) found.push_back(std::move(name));
  }
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
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) files_.emplace_back(status.st_dev, status.st_ino);
}

bool Inputs::contain(const struct stat& status) const {
  return std::find(files_.begin(), files_.end(), std::pair(status.st_dev, status.st_ino)) != files_.end();
}

int descriptor_of(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string number = path.substr(folder.size());
    const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
    if (digits && !number.empty() && number.size() <= 7) return std::stoi(number);
  }
  return -1;
}

void refuse_terminal(int descriptor) {
  if (isatty(descriptor) == 1)
    throw Failure{kUsage, "raw bytes to a terminal: redirect them, or pipe them through cat"};
}

void check_output(const std::string& into, const Inputs& inputs, bool is_model) {
  const int number = descriptor_of(into);
  struct stat status {};
  const int found = number >= 0 ? fstat(number, &status) : stat(into.c_str(), &status);
  if (found != 0) return;  // the library reports what is wrong, if anything is
  if ((is_model || number >= 0) && inputs.contain(status)) throw Failure{kUsage, into + ": is the file that is read"};
  if (number >= 0) return refuse_terminal(number);
  if (S_ISCHR(status.st_mode)) refuse_terminal(Descriptor(open(into.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC)).get());
}

}  // namespace cli
