// SPDX-License-Identifier: Apache-2.0
#include "system.hpp"

#include "windows_text.hpp"
// after windows.h
#include <fcntl.h>
#include <io.h>
#include <shellapi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "failure.hpp"

namespace cli {
namespace {

bool is_console(DWORD which) {
  DWORD mode = 0;
  return GetConsoleMode(GetStdHandle(which), &mode) != FALSE;
}

std::size_t columns_of(DWORD which) {
  constexpr std::size_t kUsual = 80;
  CONSOLE_SCREEN_BUFFER_INFO info{};
  const char* const given = std::getenv("COLUMNS");
  const int columns = given == nullptr ? 0 : std::atoi(given);
  if (columns > 0) return static_cast<std::size_t>(columns);
  if (GetConsoleScreenBufferInfo(GetStdHandle(which), &info) == FALSE) return kUsual;
  return static_cast<std::size_t>(info.srWindow.Right - info.srWindow.Left + 1);
}

struct Job {
  const std::function<void()>& work;
  std::exception_ptr thrown;
};

DWORD WINAPI run_job(void* given) {
  Job& job = *static_cast<Job*>(given);
  try {
    job.work();
  } catch (...) {
    job.thrown = std::current_exception();
  }
  return 0;
}

}  // namespace

void on_stack_of(std::size_t bytes, const std::function<void()>& work) {
  Job job{work, nullptr};
  HANDLE const thread = CreateThread(nullptr, bytes, run_job, &job, STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr);
  if (thread == nullptr) throw Failure{kUnreadable, "a thread: " + system_words(GetLastError())};
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
  if (job.thrown) std::rethrow_exception(job.thrown);
}

// The console keeps its code page for the programs that follow: UTF-8 has been the better one for all of them.
void prepare_process() {
  SetConsoleOutputCP(CP_UTF8);
  // The same bytes as everywhere: no carriage returns.
  _setmode(_fileno(stdout), _O_BINARY);
  _setmode(_fileno(stderr), _O_BINARY);
}

// Those of main() went through the code page of the system, which may not have their characters.
std::vector<std::string> arguments(int argc, char** argv) {
  int count = 0;
  wchar_t** const given = CommandLineToArgvW(GetCommandLineW(), &count);
  if (given == nullptr) return {argv, argv + argc};
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    // Not put into other characters, which may be the name of another file.
    std::optional<std::string> text = utf8(given[i]);
    if (!text) throw Failure{kUsage, "argument " + std::to_string(i) + " holds half of a character"};
    texts.push_back(std::move(*text));
  }
  LocalFree(given);
  return texts;
}

bool output_is_terminal() { return is_console(STD_OUTPUT_HANDLE); }
bool error_is_terminal() { return is_console(STD_ERROR_HANDLE); }

std::size_t output_columns() { return columns_of(STD_OUTPUT_HANDLE); }
std::size_t error_columns() { return columns_of(STD_ERROR_HANDLE); }

// The console shows them only if it is asked to.
bool output_has_colors() { return false; }

bool is_closed_pipe(int os_error) { return os_error == ERROR_BROKEN_PIPE || os_error == ERROR_NO_DATA; }

bool readers_may_leave() { return true; }

bool is_folder(const std::string& path) {
  const DWORD attributes = GetFileAttributesW(native_path(path).c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of("/\\:") + 1); }

}  // namespace cli
