// System functions that the tests need, and that have different names on POSIX systems and Windows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#if defined(_WIN32)
#include <io.h>
#include <windows.h>
#else
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace conformance {

#if defined(_WIN32)

// A file that goes with the object.
class TemporaryFile {
 public:
  TemporaryFile() : path_(_tempnam(nullptr, "st")), stream_(std::fopen(path_, "w+bTD")) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::fclose(stream_);
    std::free(path_);
  }

  std::FILE* stream() const { return stream_; }
  std::intptr_t handle() const { return _get_osfhandle(_fileno(stream_)); }

 private:
  char* path_;
  std::FILE* stream_;
};

// Runs this program with other arguments and one more variable in its environment. Returns its exit code.
inline int run_this_program(const std::vector<std::string>& arguments, const char* variable, const char* value,
                            bool quietly) {
  std::string program(MAX_PATH, '\0');
  program.resize(GetModuleFileNameA(nullptr, program.data(), MAX_PATH));
  std::string line = "\"" + program + "\"";
  for (const std::string& argument : arguments) line += " " + argument;
  STARTUPINFOA start{};
  start.cb = sizeof start;
  if (quietly) start.dwFlags = STARTF_USESTDHANDLES;  // none
  PROCESS_INFORMATION child{};
  SetEnvironmentVariableA(variable, value);
  const BOOL begun = CreateProcessA(nullptr, line.data(), nullptr, nullptr, TRUE, 0, nullptr, nullptr, &start, &child);
  SetEnvironmentVariableA(variable, nullptr);
  if (begun == FALSE) return -1;
  DWORD code = 0;
  WaitForSingleObject(child.hProcess, INFINITE);
  GetExitCodeProcess(child.hProcess, &code);
  CloseHandle(child.hThread);
  CloseHandle(child.hProcess);
  return static_cast<int>(code);
}

#else

class TemporaryFile {
 public:
  TemporaryFile() : stream_(std::tmpfile()) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::fclose(stream_); }

  std::FILE* stream() const { return stream_; }
  std::intptr_t handle() const { return fileno(stream_); }

 private:
  std::FILE* stream_;
};

inline int run_this_program(const std::vector<std::string>& arguments, const char* variable, const char* value,
                            bool quietly) {
  const pid_t child = fork();
  if (child == 0) {
    if (quietly) std::fclose(stdout);
    setenv(variable, value, 1);
    // An emulated process cannot start another emulated process by itself.
    const char* const emulator = std::getenv("ST_EMULATOR");
    std::vector<std::string> words;
    if (emulator != nullptr) words.emplace_back(emulator);
    words.emplace_back(std::filesystem::read_symlink("/proc/self/exe").string());
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> given;
    for (std::string& word : words) given.push_back(word.data());
    given.push_back(nullptr);
    execv(words.front().c_str(), given.data());
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif

}  // namespace conformance
