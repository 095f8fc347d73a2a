// SPDX-License-Identifier: Apache-2.0
#include "system.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "failure.hpp"

namespace cli {
namespace {

// If a standard descriptor is closed, the next file that is opened would get its number, and the messages meant for it.
void keep_standard_descriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

std::size_t columns_of(int descriptor) {
  constexpr std::size_t kUsual = 80;
  struct winsize size {};
  const char* const given = std::getenv("COLUMNS");
  const int columns = given == nullptr ? 0 : std::atoi(given);
  if (columns > 0) return static_cast<std::size_t>(columns);
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

struct Job {
  const std::function<void()>& work;
  std::exception_ptr thrown;
};

void* run_job(void* given) {
  Job& job = *static_cast<Job*>(given);
  try {
    job.work();
  } catch (...) {
    job.thrown = std::current_exception();
  }
  return nullptr;
}

}  // namespace

void on_stack_of(std::size_t bytes, const std::function<void()>& work) {
  constexpr std::size_t kPages = std::size_t{64} << 10;  // some systems want whole pages, and none has larger ones
  Job job{work, nullptr};
  pthread_t thread{};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  int error = pthread_attr_setstacksize(&attributes, (bytes / kPages + 1) * kPages);
  if (error == 0) error = pthread_create(&thread, &attributes, run_job, &job);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw Failure{kUnreadable, std::string("a thread: ") + std::strerror(error)};
  pthread_join(thread, nullptr);
  if (job.thrown) std::rethrow_exception(job.thrown);
}

void prepare_process() {
  keep_standard_descriptors();
  signal(SIGXFSZ, SIG_IGN);  // so that a write beyond the limit of file sizes is an error and does not end the process
}

std::vector<std::string> arguments(int argc, char** argv) { return {argv, argv + argc}; }

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool error_is_terminal() { return isatty(STDERR_FILENO) == 1; }

std::size_t output_columns() { return columns_of(STDOUT_FILENO); }
std::size_t error_columns() { return columns_of(STDERR_FILENO); }

bool output_has_colors() {
  const char* const refused = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool wanted = refused == nullptr || *refused == '\0';
  return wanted && output_is_terminal() && terminal != nullptr && std::string_view(terminal) != "dumb";
}

bool is_closed_pipe(int os_error) { return os_error == EPIPE; }

bool readers_may_leave() {
  struct sigaction action {};
  return sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_IGN;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace cli
