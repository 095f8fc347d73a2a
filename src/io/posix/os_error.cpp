// SPDX-License-Identifier: Apache-2.0
#include "io/os_error.hpp"

#include <cerrno>
#include <system_error>

#include "base/error.hpp"

std::string st::os_error_text(int os_error) { return std::generic_category().message(os_error); }

namespace st::io {

int no_such_file() { return ENOENT; }
bool is_no_such_file(int os_error) { return os_error == ENOENT; }

int out_of_memory() { return ENOMEM; }

}  // namespace st::io
