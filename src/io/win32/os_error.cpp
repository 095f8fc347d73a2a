// SPDX-License-Identifier: Apache-2.0
#include "io/os.hpp"

#include <windows.h>

#include <array>

#include "base/error.hpp"
#include "io/win32/text.hpp"

// The system's own words end with a full stop and the end of a line, which do not belong into the middle of a message.
std::string st::os_error_text(int os_error) {
  constexpr DWORD kFlags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK;
  std::array<wchar_t, 512> words{};
  const DWORD size = FormatMessageW(kFlags, nullptr, static_cast<DWORD>(os_error), 0, words.data(),
                                    static_cast<DWORD>(words.size()), nullptr);
  std::string text = io::to_utf8({words.data(), size}).value_or("");
  text.erase(text.find_last_not_of(" .\r\n") + 1);
  return text.empty() ? formatted("error {} of the system", os_error) : text;
}

namespace st::io {

int no_such_file() { return ERROR_FILE_NOT_FOUND; }
bool is_no_such_file(int os_error) { return os_error == ERROR_FILE_NOT_FOUND || os_error == ERROR_PATH_NOT_FOUND; }

int out_of_memory() { return ERROR_NOT_ENOUGH_MEMORY; }

}  // namespace st::io
