// Takes a pending signal in one call, which never waits.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/pending_signal.hpp"

#include <signal.h>

#include <cerrno>
#include <ctime>

namespace st::io {

void take_pending_signal(int number) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, number);
  const timespec now{};
  while (sigtimedwait(&wanted, nullptr, &now) < 0 && errno == EINTR) {}
}

}  // namespace st::io
