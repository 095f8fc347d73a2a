// System services other than files and memory: error numbers, random numbers, and loading libraries at run time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace st::io {

// Error numbers: errno on POSIX systems, GetLastError() on Windows. Each system defines os_error_text() of
// base/error.hpp, which returns their text.
int no_such_file();  // the error for a path that does not exist
bool is_no_such_file(int os_error);
int out_of_memory();

// Returns a number that the author of a malicious file cannot predict.
std::uint64_t random_seed();

// Returns a seed for the hash table at this address, on Linux without a system call.
std::uint64_t hash_seed(const void* table);

// A library loaded at run time. It is never unloaded, because drivers do not support that.
class SharedLibrary {
 public:
  SharedLibrary() = default;

  // Returns the library of this name if the process has already loaded it, otherwise an empty object.
  static SharedLibrary loaded(const char* name);
  // Loads the library of this name or path. On failure, returns an empty object and sets *why to the system's
  // explanation, if there is one. `why` may be null.
  static SharedLibrary load(const char* name, std::string* why = nullptr);

  explicit operator bool() const { return handle_ != nullptr; }

  // Returns the address of a function, or nullptr.
  void* find(const char* function) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}

  void* handle_ = nullptr;
};

}  // namespace st::io
