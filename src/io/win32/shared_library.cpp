// SPDX-License-Identifier: Apache-2.0
#include "io/shared_library.hpp"

#include <windows.h>

#include <string>
#include <string_view>

namespace st::io {

namespace {

std::wstring wide(std::string_view text) {
  const auto bytes = static_cast<int>(text.size());
  std::wstring result(static_cast<std::size_t>(MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, nullptr, 0)), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, result.data(), static_cast<int>(result.size()));
  return result;
}

}  // namespace

// One more reference, so that it stays loaded.
SharedLibrary SharedLibrary::loaded(const char* name) {
  HMODULE module = nullptr;
  return GetModuleHandleExW(0, wide(name).c_str(), &module) != 0 ? SharedLibrary(module) : SharedLibrary();
}

// Drivers lie in the system's folder. A name alone is not looked for in others, which may be somebody else's.
SharedLibrary SharedLibrary::load(const char* name) {
  const bool is_path = std::string_view(name).find_first_of("/\\") != std::string_view::npos;
  return SharedLibrary(LoadLibraryExW(wide(name).c_str(), nullptr, is_path ? 0 : LOAD_LIBRARY_SEARCH_SYSTEM32));
}

void* SharedLibrary::find(const char* function) const {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), function));
}

}  // namespace st::io
