// What direct reads of a file are aligned to, by what its filesystem says of them.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/direct_read.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "../files.hpp"
#include "../nothrow.hpp"
#include "../system.hpp"
#include "io/posix/file_reader.hpp"

#if defined(STATX_DIOALIGN)

namespace {

struct Answer {
  int error;
  bool known;
  std::uint32_t memory, offset;
};

std::optional<Answer> chosen;
int asked = -1;

}  // namespace

// Stands before the C library's.
extern "C" int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) ST_NOTHROW {
  if (!chosen) return static_cast<int>(syscall(SYS_statx, folder, path, flags, mask, status));
  asked = folder;
  *status = {};
  if (chosen->error != 0) {
    errno = chosen->error;
    return -1;
  }
  status->stx_mask = chosen->known ? STATX_DIOALIGN : 0;
  status->stx_dio_mem_align = chosen->memory;
  status->stx_dio_offset_align = chosen->offset;
  return 0;
}

namespace st::io {
namespace {

class DirectReadTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    if (!has_linux_io()) GTEST_SKIP() << "no direct reads in this build";
  }
  void TearDown() override {
    chosen.reset();
    FolderTest::TearDown();
  }
};

TEST_F(DirectReadTest, are_aligned_to_a_page_or_to_more_where_the_disk_wants_it) {
  const struct {
    Answer answer;
    std::uint64_t alignment;
  } cases[] = {
      {{ENOSYS, false, 0, 0}, 4096},
      {{0, false, 0, 0}, 4096},
      {{0, true, 512, 512}, 4096},
      {{0, true, 4, 8192}, 8192},
      {{0, true, 65536, 512}, 65536},
      {{0, true, 512, 65536}, 65536},
      {{0, true, 512, std::uint32_t{1} << 17}, 0},
      {{0, true, std::uint32_t{1} << 17, 512}, 0},
      {{0, true, 0, 0}, 0},  // the file has none
  };
  for (const auto& [answer, alignment] : cases) {
    chosen = answer;
    EXPECT_EQ(direct_alignment(7), alignment) << answer.memory << ' ' << answer.offset;
    EXPECT_EQ(asked, 7);
  }
}

TEST_F(DirectReadTest, are_asked_about_by_the_descriptor_that_is_read) {
  put(path(), std::string(8192, 'x'));
  if (!Descriptor(::open(path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC))) GTEST_SKIP() << "none in " << folder;
  const FileSource source(PlainFile::open(path().c_str()), 0, 8192);
  FileReader file(source, Cache::around);
  chosen = Answer{0, true, 8192, 8192};
  EXPECT_EQ(file.path_for(0, 8192), ReadPath::direct);
  EXPECT_EQ(file.alignment(), 8192U);
  EXPECT_NE(fcntl(asked, F_GETFL) & O_DIRECT, 0);
}

}  // namespace
}  // namespace st::io

#endif
