// Takes a pending signal by what every system of the family has; macOS lacks sigtimedwait.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/pending_signal.hpp"

#include <signal.h>

namespace st::io {

// It waits if another thread takes the signal in between. One of a write to a pipe is sent to the writing thread alone.
void take_pending_signal(int number) {
  sigset_t pending;
  if (sigpending(&pending) != 0 || sigismember(&pending, number) != 1) return;
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, number);
  int taken = 0;
  sigwait(&wanted, &taken);
}

}  // namespace st::io
