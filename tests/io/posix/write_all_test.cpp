// Writing goes on after what stops it halfway, and ends where it never would.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/write_all.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "../faults.hpp"
#include "../files.hpp"
#include "../system.hpp"
#include "io/posix/descriptor.hpp"
#include "io/posix/edit_lock.hpp"
#include "io/posix/space.hpp"

namespace st::io {
namespace {

using WriteAllTest = FolderTest;
using faults::Action;

TEST_F(WriteAllTest, writes_all_of_it_or_says_why_not) {
  const struct {
    const char* name;
    Action action;
    int error;
    int told;
  } cases[] = {
      {"nothing happens", Action::none, 0, 0},       {"an interruption", Action::fail, EINTR, 0},
      {"half of it", Action::cut_short, 0, 0},       {"no byte and no error", Action::none_of_it, 0, EIO},
      {"a full disk", Action::fail, ENOSPC, ENOSPC},
  };
  const std::string text = "abcdefghij";
  for (const auto& [name, action, error, told] : cases) {
    for (const bool at_an_offset : {false, true}) {
      SCOPED_TRACE(name);
      const Descriptor file(::open(path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      faults::Plan plan;
      plan.at = 0;
      plan.action = action;
      plan.error = error;
      faults::arm(plan);
      const int result = at_an_offset ? write_all_at(file.get(), 3, text.data(), text.size())
                                      : write_all(file.get(), text.data(), text.size());
      faults::disarm();
      EXPECT_EQ(result, told);
      const std::string wanted = at_an_offset ? std::string(3, '\0') + text : text;
      EXPECT_TRUE(told != 0 || contents(path()) == wanted);
    }
  }
}

TEST_F(WriteAllTest, leaves_the_signals_of_the_thread_as_they_were) {
  const Descriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  sigset_t pipe;
  sigset_t now;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  for (const int blocked : {0, 1}) {
    pthread_sigmask(blocked != 0 ? SIG_BLOCK : SIG_UNBLOCK, &pipe, nullptr);
    EXPECT_EQ(write_all(null.get(), "x", 1), 0);
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    EXPECT_EQ(sigismember(&now, SIGPIPE), blocked);
  }
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
}

TEST_F(WriteAllTest, takes_no_signal_but_the_one_of_closed_pipes) {
  sigset_t other;
  sigset_t pending;
  sigemptyset(&other);
  sigaddset(&other, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &other, nullptr);
  raise(SIGUSR1);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  EXPECT_EQ(write_all(ends[1], "x", 1), EPIPE);
  close(ends[1]);
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGUSR1), 1);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  const timespec now{};
  EXPECT_EQ(sigtimedwait(&other, nullptr, &now), SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &other, nullptr);
}

// A file may have 1000 bytes. What would exceed that used to end the process by SIGXFSZ.
TEST_F(WriteAllTest, a_limit_of_size_is_an_error_and_no_signal) {
  put(path("source"), std::string(4000, 's'));
  const struct {
    const char* name;
    int (*grow)(int file, int source);
    int error;
  } ways[] = {
      {"at an offset", [](int file, int) { return write_all_at(file, 995, "abcdefghij", 10); }, EFBIG},
      {"at an offset, two writes",
       [](int file, int) { return write_all_at(file, 0, std::string(2000, 'x').data(), 2000); }, EFBIG},
      {"as a stream", [](int file, int) { return write_all(file, std::string(2000, 'x').data(), 2000); }, EFBIG},
      {"by its length", [](int file, int) { return set_length(file, 1001); }, EFBIG},
      {"by its length, not too much", [](int file, int) { return set_length(file, 1000); }, 0},
      {"by its space", [](int file, int) { return take_space(file, 2000); }, has_linux_io() ? EFBIG : 0},
      {"by a copy", [](int file, int source) { return copy_in_kernel(source, 0, file, 1000, 4000) == 0 ? 0 : EIO; }, 0},
      {"by a copy that takes space",
       [](int file, int source) { return copy_in_kernel(source, 0, file, 1001, 2 << 20) == 0 ? 0 : EIO; }, 0},
  };
  for (const auto& [name, grow, error] : ways) {
    for (const int blocked : {0, 1}) {
      SCOPED_TRACE(formatted("{} {}", name, blocked));
      const int result = in_child([&, grow = grow] {
        const rlimit small{1000, 1000};
        sigset_t signals;
        sigset_t now;
        sigemptyset(&signals);
        sigaddset(&signals, SIGXFSZ);
        signal(SIGXFSZ, SIG_DFL);
        const int file = ::open(path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        const int source = ::open(path("source").c_str(), O_RDONLY | O_CLOEXEC);
        if (setrlimit(RLIMIT_FSIZE, &small) != 0) return 255;
        pthread_sigmask(blocked != 0 ? SIG_BLOCK : SIG_UNBLOCK, &signals, nullptr);
        const int grown = grow(file, source);
        sigpending(&now);
        if (sigismember(&now, SIGXFSZ) != 0) return 254;
        pthread_sigmask(SIG_BLOCK, nullptr, &now);
        return sigismember(&now, SIGXFSZ) == blocked ? grown : 253;
      });
      EXPECT_EQ(result, error);
    }
  }
}

TEST_F(WriteAllTest, a_signal_of_the_callers_own_stays_pending) {
  for (const int number : {SIGPIPE, SIGXFSZ}) {
    const int result = in_child([&] {
      sigset_t signals;
      sigemptyset(&signals);
      sigaddset(&signals, number);
      pthread_sigmask(SIG_BLOCK, &signals, nullptr);
      raise(number);
      const int file = ::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (write_all_at(file, 0, "x", 1) != 0) return 1;
      sigpending(&signals);
      return sigismember(&signals, number) == 1 ? 0 : 2;
    });
    EXPECT_EQ(result, 0) << number;
  }
}

// Where standard input was closed, the next file has its number.
TEST_F(WriteAllTest, locks_a_file_whose_descriptor_is_0) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "x");
  const auto locked = [&] {
    const int file = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
    return file > 0 && dup2(file, 0) == 0 && EditLock::exclusive(0).held() ? 1 : 0;
  };
  EXPECT_EQ(in_child(locked), 1);
}

}  // namespace
}  // namespace st::io
