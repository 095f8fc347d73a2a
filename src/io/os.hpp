// System services other than files and memory: error numbers, random numbers, and libraries that are loaded at run
// time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace st::io {

// Error numbers: errno on POSIX systems, GetLastError() on Windows. os_error_text() of base/error.hpp, which each
// system defines, returns their text.
int no_such_file();  // the error for a path that does not exist
bool is_no_such_file(int os_error);
int out_of_memory();

// Returns a number that an attacker who writes a file cannot predict.
std::uint64_t random_seed();

// Returns a seed for the hash table at this address. On Linux it takes no system call.
std::uint64_t hash_seed(const void* table);

// A library that is loaded while the program runs. It stays loaded: drivers do not expect to be unloaded.
class SharedLibrary {
 public:
  SharedLibrary() = default;

  // Returns the library of this name if the process has it, else nothing.
  static SharedLibrary loaded(const char* name);
  // Loads the library of this name or path. Returns nothing if that is not possible; *why, which may be null, is then
  // the system's explanation, if it gives one.
  static SharedLibrary load(const char* name, std::string* why = nullptr);

  explicit operator bool() const { return handle_ != nullptr; }

  // Returns the address of a function, or null.
  void* find(const char* function) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}

  void* handle_ = nullptr;
};

}  // namespace st::io
