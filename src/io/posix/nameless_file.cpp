// SPDX-License-Identifier: Apache-2.0
#include "io/posix/nameless_file.hpp"

#include <cerrno>

namespace st::io {

Descriptor open_nameless(int /*folder*/, mode_t /*mode*/) { return {}; }

int link_nameless(int /*file*/, int /*folder*/, const std::string& /*name*/) {
  errno = ENOTSUP;
  return -1;
}

int rename_to_free_name(int /*folder*/, const std::string& /*from*/, const std::string& /*to*/) { return ENOSYS; }

}  // namespace st::io
