// SPDX-License-Identifier: Apache-2.0
#include "io/shared_library.hpp"

#include <dlfcn.h>

namespace st::io {

// RTLD_NOLOAD is not in POSIX; where it is missing, loading again what is loaded gives the same library.
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
