// Libraries that are loaded while the program runs. They stay loaded: drivers do not expect to be unloaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace st::io {

class SharedLibrary {
 public:
  SharedLibrary() = default;

  // The library of this name if the process has it, else nothing.
  static SharedLibrary loaded(const char* name);
  // Loads the library of this name or path. Nothing if that is not possible; then *why, which may be null, is what the
  // system says of it, or nothing.
  static SharedLibrary load(const char* name, std::string* why = nullptr);

  explicit operator bool() const { return handle_ != nullptr; }

  // The address of a function; null if there is none.
  void* find(const char* function) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}

  void* handle_ = nullptr;
};

}  // namespace st::io
