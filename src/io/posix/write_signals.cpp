// SPDX-License-Identifier: Apache-2.0
#include "io/posix/write_signals.hpp"

#include <array>
#include <cerrno>

#include "io/posix/pending_signal.hpp"

namespace st::io {

namespace {

constexpr std::array kSignals{SIGPIPE, SIGXFSZ};

}  // namespace

NoWriteSignals::NoWriteSignals() {
  sigset_t both;
  sigemptyset(&both);
  for (const int number : kSignals) sigaddset(&both, number);
  sigpending(&pending_);
  pthread_sigmask(SIG_BLOCK, &both, &before_);
}

NoWriteSignals::~NoWriteSignals() {
  const int error = errno;
  for (const int number : kSignals) {
    if (sigismember(&pending_, number) != 1) take_pending_signal(number);
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace st::io
