// Descriptors, the identity of files, and writing with all its errors.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../faults.hpp"
#include "../files.hpp"
#include "../system.hpp"
#include "io/directory.hpp"
#include "io/edited_file.hpp"
#include "io/posix/edit.hpp"
#include "io/posix/file_source.hpp"
#include "io/posix/system.hpp"
#include "io/source.hpp"

namespace st::io::file_test {
namespace {

TEST(Descriptor, IsClosedWhenAnotherTakesItsPlace) {
  Descriptor kept(::open("/", O_RDONLY | O_CLOEXEC));
  const int first = kept.get();
  kept = Descriptor(::open("/", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(kept && fcntl(first, F_GETFD) < 0);
}

class KeptDescriptorTest : public FolderTest {};

// Returns 1 if the source kept the descriptor of this number, 0 if it was mapped instead, otherwise 2.
int keeps(const std::string& path, int number, rlim_t most, Mode mode, bool may_keep_open) {
  for (int i = 3; i < 1024; ++i) ::close(i);
  ::close(number);
  int last = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  while (last < number) last = fcntl(last, F_DUPFD_CLOEXEC, 0);
  ::close(number);
  const rlimit limit{most, most};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 3;
  FileSource source(RegularFile::open(path.c_str()), 0, 9000);
  source.prepare(mode, may_keep_open);
  if (source.file().descriptor() == number && !source.is_mapped()) return 1;
  return source.file().descriptor() < 0 && source.is_mapped() ? 0 : 2;
}

TEST_F(KeptDescriptorTest, is_among_the_first_quarter_and_the_first_64) {
  put(path(), std::string(9000, 'x'));
  const struct {
    rlim_t most;
    int number;
    bool kept;
    Mode mode = Mode::automatic;
    bool may_keep_open = true;
  } cases[] = {
      {1024, 3, true},
      {1024, 63, true},
      {1024, 64, false},
      {1024, 65, false},
      {43, 9, true},
      {43, 10, false},
      {44, 10, true},
      {1024, 3, false, Mode::automatic, false},
      {1024, 64, true, Mode::read},  // nothing else leads to its bytes
  };
  for (const auto& given : cases) {
    const int result =
        in_child([&] { return keeps(path(), given.number, given.most, given.mode, given.may_keep_open); });
    if (result == 3) continue;  // a lower limit cannot be raised
    EXPECT_EQ(result, given.kept ? 1 : 0) << given.most << ' ' << given.number;
  }
}

// In a daemon that has closed its standard streams, the next printf must not write to a model.
TEST_F(KeptDescriptorTest, is_none_of_the_standard_streams_though_they_are_closed) {
  const std::string bytes(9000, 'x');
  put(path("old"), bytes);
  for (const auto& [nameless, links] : {std::pair{true, true}, {true, false}, {false, true}}) {
    const int result = in_child([&, nameless = nameless, links = links] {
      const int given = fcntl(::open(path("old").c_str(), O_RDONLY | O_CLOEXEC), F_DUPFD_CLOEXEC, 10);
      for (int i = 0; i < 10; ++i) ::close(i);
      const auto standard_are_free = [] {
        return fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
      };
      const RegularFile by_path = RegularFile::open(path("old").c_str());
      const RegularFile by_descriptor = RegularFile::duplicate(given);
      if (!standard_are_free() || by_path.descriptor() < 3 || by_descriptor.descriptor() < 3) return 1;
      if (has_linux_io()) {  // elsewhere a file without a path cannot be reopened
        const Descriptor again = by_descriptor.reopen(0);
        if (!standard_are_free() || again.get() < 3) return 2;
      }
      const auto folder_of = open_directory(folder);
      if (folder_of->names() != std::vector<std::string>{"old"} || !standard_are_free()) return 3;
      faults::Plan kernel;
      kernel.no_nameless_files = !nameless;
      kernel.no_links = !links;
      kernel.only_refusals = true;
      faults::arm(kernel);
      AtomicFile file = AtomicFile::create(path("old").c_str(), {true, true});
      if (!standard_are_free()) return 4;
      file.write_at(0, bytes.data(), bytes.size());
      file.commit();
      if (!standard_are_free()) return 5;
      EditedFile edited = EditedFile::open(path("old").c_str());
      edited.patch(0, "x", 1, false);
      if (!standard_are_free()) return 6;
      AtomicFile stream = AtomicFile::create("/dev/null", {});
      return standard_are_free() ? 0 : 7;
    });
    EXPECT_EQ(result, 0) << nameless << links;
    EXPECT_EQ(contents(path("old")), bytes);
  }
}

bool found_a_free_stream;

// Not even between opening and moving to a higher number: another thread may print at that moment.
TEST_F(KeptDescriptorTest, is_none_of_the_standard_streams_at_any_moment_if_it_can_be_written_to) {
  put(path("old"), std::string(100, 'x'));
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  for (const bool nameless : {true, false}) {
    const int result = in_child([&] {
      const int reader = fcntl(::open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), F_DUPFD_CLOEXEC, 10);
      for (int i = 0; i < 10; ++i) ::close(i);
      faults::Plan kernel;
      kernel.no_nameless_files = !nameless;
      kernel.only_refusals = true;
      kernel.before_open = [](const char*, int flags) {
        if ((flags & O_ACCMODE) == O_RDONLY && (flags & O_CREAT) == 0) return;
        for (int i = 0; i < 3; ++i) found_a_free_stream = found_a_free_stream || fcntl(i, F_GETFD) < 0;
      };
      faults::arm(kernel);
      found_a_free_stream = false;
      const Error error = error_of([&] {
        write(path("new"), "new");
        write(path("old"), "new");
        AtomicFile::create(path("fifo").c_str(), {});
        EditedFile::open(path("old").c_str());
      });
      const bool given_back = fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
      return (error.status == Status::ok ? 0 : 1) + (found_a_free_stream ? 2 : 0) + (given_back && reader > 2 ? 0 : 4);
    });
    EXPECT_EQ(result, 0) << nameless;
  }
}

int hosts_file;

// The library has occupied the numbers while it opens a file, which may take long: a FIFO waits for its reader.
TEST_F(KeptDescriptorTest, what_the_host_makes_a_standard_stream_meanwhile_stays_open) {
  if (!has_linux_io()) GTEST_SKIP() << "this build cannot tell the host's descriptors from its own";
  const int result = in_child([&] {
    hosts_file = fcntl(::open("/dev/null", O_WRONLY | O_CLOEXEC), F_DUPFD_CLOEXEC, 10);
    for (int i = 0; i < 10; ++i) ::close(i);
    faults::Plan kernel;
    kernel.only_refusals = true;
    kernel.before_open = [](const char*, int flags) {
      if ((flags & O_CREAT) != 0) dup2(hosts_file, 1);
    };
    faults::arm(kernel);
    const Descriptor made = open_file(AT_FDCWD, path().c_str(), O_RDWR | O_CREAT, 0600);
    faults::disarm();
    if (hosts_file < 10 || !made) return 1;
    const bool given_back = fcntl(0, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
    return (given_back ? 0 : 2) + (fcntl(1, F_GETFD) < 0 ? 4 : 0);
  });
  EXPECT_EQ(result, 0);
}

// The host opens its file after the check for free numbers, before the library occupies one.
TEST_F(KeptDescriptorTest, what_is_opened_to_occupy_a_stream_that_the_host_just_took_is_closed) {
  const int result = in_child([&] {
    hosts_file = fcntl(::open("/dev/null", O_RDONLY | O_CLOEXEC), F_DUPFD_CLOEXEC, 10);
    for (int i = 0; i < 10; ++i) ::close(i);
    faults::Plan kernel;
    kernel.only_refusals = true;
    kernel.before_open = [](const char* name, int) {
      for (int i = 0; i < 3 && name == std::string("/"); ++i) dup2(hosts_file, i);
    };
    faults::arm(kernel);
    return open_file(AT_FDCWD, path().c_str(), O_RDWR | O_CREAT, 0600).get();
  });
  EXPECT_EQ(result, 3);  // the lowest that is free
}

// No number above them is free: that is an error. None of theirs is used, and no file remains.
TEST_F(KeptDescriptorTest, is_an_error_where_only_the_standard_streams_are_free) {
  put(path("old"), "old");
  for (const bool nameless : {true, false}) {
    const int result = in_child([&] {
      for (int i = 0; i < 1024; ++i) ::close(i);
      const rlimit few{8, 8};
      if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 99;
      faults::Plan kernel;
      kernel.no_nameless_files = !nameless;
      kernel.only_refusals = true;
      faults::arm(kernel);
      while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {}
      for (int i = 0; i < 3; ++i) ::close(i);
      if (error_of([&] { RegularFile::open(path("old").c_str()); }).os_error != EMFILE) return 1;
      for (const char* const name : {"old", "new"}) {
        for (int free = 3; free < 8; ++free) {  // one more each time
          const int error = error_of([&] { write(path(name), "new", {true, true}); }).os_error;
          if (error != 0 && error != EMFILE) return 10 + free;
          ::close(free);
        }
        while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {}
        for (int i = 0; i < 3; ++i) ::close(i);
      }
      return 0;
    });
    EXPECT_EQ(result, 0) << nameless;
    for (const auto& entry : fs::directory_iterator(folder)) {
      EXPECT_EQ(entry.path().filename().string().find(".st-new-"), std::string::npos) << entry.path();
    }
  }
}

TEST(Identity, IsTakenFromEachFieldOfTheSystemsAnswer) {
  struct stat status {};
  status.st_dev = 1;
  status.st_ino = 2;
  status.st_size = 3;
  status.st_mtim = {4, 5};
  status.st_ctim = {6, 7};
  EXPECT_EQ(identity_of(status), (Identity{1, 2, 3, {4, 5}, {6, 7}}));
}

TEST(Identity, IsOfAFileThatChangedLatelyForFiveSeconds) {
  struct stat status {};
  status.st_ctim = {100, 0};
  EXPECT_TRUE(changed_lately(status, 105));
  EXPECT_FALSE(changed_lately(status, 106));
}

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
      {"a full disk", Action::fail, ENOSPC, ENOSPC}, {"a full pipe", Action::fail, EAGAIN, EAGAIN},
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
      errno = EAGAIN;  // of an earlier call
      const int result = at_an_offset ? write_all_at(file.get(), 3, text.data(), text.size())
                                      : write_all(file.get(), text.data(), text.size());
      faults::disarm();
      const int wanted_result = error == EAGAIN && !at_an_offset ? 0 : told;
      EXPECT_EQ(result, wanted_result);
      const std::string wanted = at_an_offset ? std::string(3, '\0') + text : text;
      EXPECT_TRUE(wanted_result != 0 || contents(path()) == wanted);
    }
  }
}

// The kernel may copy less than it was asked for. The errno of an earlier call is ignored.
TEST_F(WriteAllTest, a_copy_in_the_kernel_goes_on_where_it_was_cut_short) {
  put(path("source"), "0123456789abcdefghij");
  const Descriptor source(::open(path("source").c_str(), O_RDONLY | O_CLOEXEC));
  put(path("probe"), "");
  const Descriptor probe(::open(path("probe").c_str(), O_WRONLY | O_CLOEXEC));
  if (copy_in_kernel(source.get(), 0, probe.get(), 0, 1) != 1) GTEST_SKIP() << "no copies in the kernel";
  const struct {
    Action action;
    int error;
    std::uint64_t done;
    std::size_t calls;
  } cases[] = {{Action::none, 0, 10, 1},
               {Action::cut_short, 0, 10, 2},
               {Action::none_of_it, 0, 0, 1},
               {Action::fail, EINTR, 10, 2},
               {Action::fail, ENOSPC, 0, 1}};
  for (const auto& [action, error, done, calls] : cases) {
    put(path(), std::string(20, '.'));
    const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
    faults::Plan plan;
    plan.at = 0;
    plan.action = action;
    plan.error = error;
    faults::arm(plan);
    errno = EINTR;
    EXPECT_EQ(copy_in_kernel(source.get(), 1, file.get(), 3, 10), done) << error;
    EXPECT_EQ(faults::calls().size(), calls) << error;
    faults::disarm();
    EXPECT_EQ(contents(path()), done == 0 ? std::string(20, '.') : "...123456789a.......") << error;
  }
}

TEST_F(WriteAllTest, sleeps_until_a_full_pipe_has_room) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()) | fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  std::string text(1 << 20, 'x');
  text.resize(static_cast<std::size_t>(::write(ends[1], text.data(), text.size())));
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_GT(::read(ends[0], text.data(), text.size()), 0);
  });
  faults::arm({});
  EXPECT_EQ(write_all(ends[1], "y", 1), 0);
  const std::size_t calls = faults::calls().size();
  faults::disarm();
  reader.join();
  for (const int end : ends) close(end);
  EXPECT_LE(calls, 2U);
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

// The limit is 1000 bytes. Before, exceeding it killed the process by SIGXFSZ.
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
      {"by its space, not too much",
       [](int file, int) {
         errno = ENOSPC;  // of an earlier call
         return take_space(file, 1000);
       },
       0},
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

// If standard input is closed, the next file gets its number.
TEST_F(WriteAllTest, locks_a_file_whose_descriptor_is_0) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "x");
  const auto locked = [&] {
    const int file = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
    const int other = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0 || dup2(file, 0) != 0 || !EditLock::exclusive(0).held()) return 0;
    if (error_of([&] { RegularFile::duplicate(0); }).status != Status::ok) return 3;
    return set_byte_lock(other, LockedByte::header, ByteLock::exclusive) == 0 ? 1 : 2;  // unlocked again
  };
  EXPECT_EQ(in_child(locked), 1);
}

}  // namespace
}  // namespace st::io::file_test
