// Error numbers and shared libraries on POSIX systems. Random numbers are in system.cpp, or in linux/system.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "io/os.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <system_error>

#include "base/error.hpp"

std::string st::os_error_text(int os_error) { return std::generic_category().message(os_error); }

namespace st::io {

int no_such_file() { return ENOENT; }
bool is_no_such_file(int os_error) { return os_error == ENOENT; }

int out_of_memory() { return ENOMEM; }

// RTLD_NOLOAD is not in POSIX. Without it, dlopen() of a loaded library returns the same library.
SharedLibrary SharedLibrary::loaded(const char* name) {
#if defined(RTLD_NOLOAD)
  return SharedLibrary(dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
#else
  static_cast<void>(name);
  return {};
#endif
}

SharedLibrary SharedLibrary::load(const char* name, std::string* why) {
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr && why != nullptr) {
    const char* const said = dlerror();
    *why = said == nullptr ? "" : said;
  }
  return SharedLibrary(handle);
}

void* SharedLibrary::find(const char* function) const { return dlsym(handle_, function); }

}  // namespace st::io
