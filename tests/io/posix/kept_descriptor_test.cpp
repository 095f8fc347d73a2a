// Which descriptors a source keeps: low numbers only, and so few of them.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../files.hpp"
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
      {1024, 2, false},  {1024, 3, true}, {1024, 63, true}, {1024, 64, false},
      {1024, 65, false}, {43, 9, true},   {43, 10, false},  {44, 10, true},
  };
  for (const auto& [most, number, kept] : cases) {
    const int result = in_child([&, most = most, number = number] { return keeps(path(), number, most); });
    EXPECT_EQ(result, kept ? 1 : 0) << most << ' ' << number;
  }
}

}  // namespace
}  // namespace st::io
