// The signals of failed writes: SIGPIPE of a pipe without a reader, SIGXFSZ of a file that would exceed RLIMIT_FSIZE. By
// default each ends the process. Here they are errors of the call only, EPIPE and EFBIG.
//
// Linux sends both to the thread that writes, so they are blocked in this thread and taken before they are unblocked.
// A system that sends SIGXFSZ to the process, as macOS does, may deliver it to another thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

namespace st::io {

// While it exists, this thread receives neither signal. A signal that was pending before stays pending.
class NoWriteSignals {
 public:
  NoWriteSignals();
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;
  ~NoWriteSignals();  // leaves errno as it is

 private:
  sigset_t pending_;  // before
  sigset_t before_;   // the thread's mask
};

}  // namespace st::io
