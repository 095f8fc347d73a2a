// SPDX-License-Identifier: Apache-2.0
#include "io/os.hpp"

#include <windows.h>

#include <cstring>
#include <optional>
#include <string>

#include "io/win32/path.hpp"
#include "io/win32/text.hpp"

namespace st::io {

SharedLibrary SharedLibrary::loaded(const char* name) {
  const std::optional<std::wstring> wide = to_wide(name);
  HMODULE found = nullptr;
  if (wide) GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN, wide->c_str(), &found);
  return SharedLibrary(found);
}

// A bare name is looked for among the system's libraries only, never in the folder that the program happens to be in.
SharedLibrary SharedLibrary::load(const char* name, std::string* /*why*/) {
  if (std::strpbrk(name, "\\/:") != nullptr) {
    return SharedLibrary(LoadLibraryExW(native_path(name).c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH));
  }
  const std::optional<std::wstring> wide = to_wide(name);
  return SharedLibrary(wide ? LoadLibraryExW(wide->c_str(), nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32) : nullptr);
}

void* SharedLibrary::find(const char* function) const {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), function));
}

}  // namespace st::io
