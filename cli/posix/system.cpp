// SPDX-License-Identifier: Apache-2.0
#include "system.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <system_error>

namespace cli {
namespace {

// If a standard descriptor is closed, the next file that is opened would get its number, and the messages meant for it.
void keep_standard_descriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

void prepare_process() {
  keep_standard_descriptors();
  signal(SIGXFSZ, SIG_IGN);  // so that a write beyond the limit of file sizes is an error and does not end the process
}

std::vector<std::string> arguments(int argc, char** argv) { return {argv, argv + argc}; }

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool error_is_terminal() { return isatty(STDERR_FILENO) == 1; }

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace cli
