// Which descriptors a source keeps: low numbers only, and so few of them. Those of the standard streams are the host's.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "../faults.hpp"
#include "../files.hpp"
#include "../system.hpp"
#include "io/edited_file.hpp"
#include "io/folder.hpp"
#include "io/posix/file_source.hpp"

namespace st::io {
namespace {

class KeptDescriptorTest : public FolderTest {};

// 1: the source kept the descriptor of this number, 0: it was mapped instead, 2: neither.
int keeps(const std::string& path, int number, rlim_t most) {
  for (int i = 3; i < 1024; ++i) ::close(i);
  ::close(number);
  int last = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  while (last < number) last = fcntl(last, F_DUPFD_CLOEXEC, 0);
  ::close(number);
  const rlimit limit{most, most};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 3;
  FileSource source(PlainFile::open(path.c_str()), 0, 9000);
  source.prepare(Mode::automatic, true);
  if (source.file().descriptor() == number && !source.is_mapped()) return 1;
  return source.file().descriptor() < 0 && source.is_mapped() ? 0 : 2;
}

TEST_F(KeptDescriptorTest, is_among_the_first_quarter_and_the_first_64) {
  put(path(), std::string(9000, 'x'));
  const struct {
    rlim_t most;
    int number;
    bool kept;
  } cases[] = {
      {1024, 3, true}, {1024, 63, true}, {1024, 64, false}, {1024, 65, false},
      {43, 9, true},   {43, 10, false},  {44, 10, true},
  };
  for (const auto& [most, number, kept] : cases) {
    const int result = in_child([&, most = most, number = number] { return keeps(path(), number, most); });
    EXPECT_EQ(result, kept ? 1 : 0) << most << ' ' << number;
  }
}

// In a daemon, which has closed its standard streams, the next printf must not go into a model.
TEST_F(KeptDescriptorTest, is_none_of_the_standard_streams_though_they_are_closed) {
  const std::string bytes(9000, 'x');
  put(path("old"), bytes);
  for (const bool nameless : {true, false}) {
    const int result = in_child([&] {
      const int given = fcntl(::open(path("old").c_str(), O_RDONLY | O_CLOEXEC), F_DUPFD_CLOEXEC, 10);
      for (int i = 0; i < 10; ++i) ::close(i);
      const auto standard_are_free = [] {
        return fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
      };
      const PlainFile by_path = PlainFile::open(path("old").c_str());
      const PlainFile by_descriptor = PlainFile::duplicate(given);
      if (!standard_are_free() || by_path.descriptor() < 3 || by_descriptor.descriptor() < 3) return 1;
      if (has_linux_io()) {  // elsewhere a file without a path cannot be reopened
        const Descriptor again = by_descriptor.reopen(0);
        if (!standard_are_free() || again.get() < 3) return 2;
      }
      const auto folder_of = open_folder(folder);
      if (folder_of->names() != std::vector<std::string>{"old"} || !standard_are_free()) return 3;
      faults::Plan kernel;
      kernel.no_nameless_files = !nameless;
      kernel.only_refusals = true;
      faults::arm(kernel);
      AtomicFile file = AtomicFile::create(path("old").c_str(), {true, true});
      if (!standard_are_free()) return 4;
      file.write_at(0, bytes.data(), bytes.size());
      file.commit();
      if (!standard_are_free()) return 5;
      EditedFile edited = EditedFile::open(path("old").c_str());
      if (!standard_are_free()) return 6;
      AtomicFile stream = AtomicFile::create("/dev/null", {});
      return standard_are_free() ? 0 : 7;
    });
    EXPECT_EQ(result, 0) << nameless;
    EXPECT_EQ(contents(path("old")), bytes);
  }
}

bool found_a_free_stream;

// Not even between the opening and the move to a higher number: another thread may print at that moment.
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

// No number above them is free: an error, and not one of theirs, nor a file that is left behind.
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
      if (error_of([&] { PlainFile::open(path("old").c_str()); }).os_error != EMFILE) return 1;
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

}  // namespace
}  // namespace st::io
