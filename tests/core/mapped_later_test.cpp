// When a file is mapped: at the first access to its data, or at open. Only POSIX systems map so late.
// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <string>

#include "../format/file_front.hpp"
#include "../io/files.hpp"
#include "../io/read_faults.hpp"
#include "core/checkpoint.hpp"
#include "io/posix/file_source.hpp"

namespace st::core::mapped_later_test {
namespace {

class MappedLaterTest : public io::FolderTest {};

TEST_F(MappedLaterTest, maps_at_open_only_if_asked) {
  io::put(path(), format::file_front(R"({"t":{"dtype":"U8","shape":[9000],"data_offsets":[0,9000]}})") +
                      std::string(9000, 'x'));
  for (const io::Mode mode : {io::Mode::automatic, io::Mode::map, io::Mode::copy_on_write, io::Mode::read}) {
    OpenOptions options;
    options.io = mode;
    const CheckpointPtr file = Checkpoint::open(path().c_str(), options);
    const auto& source = dynamic_cast<const io::FileSource&>(*file->shard(0).source);
    const bool mapped = mode == io::Mode::map || mode == io::Mode::copy_on_write;
    EXPECT_GE(source.file().descriptor(), 0) << static_cast<int>(mode);
    EXPECT_EQ(source.is_mapped(), mapped) << static_cast<int>(mode);
    EXPECT_EQ(source.view() != nullptr, mode != io::Mode::read) << static_cast<int>(mode);
  }
}

// It may have become shorter, and touching the bytes behind its end would end the process.
TEST_F(MappedLaterTest, a_file_that_cannot_be_looked_at_is_not_mapped) {
  io::put(path(), format::file_front(R"({"t":{"dtype":"U8","shape":[9000],"data_offsets":[0,9000]}})") +
                      std::string(9000, 'x'));
  const CheckpointPtr file = Checkpoint::open(path().c_str(), OpenOptions{});
  const io::Source& source = *file->shard(0).source;
  read_faults::arm({"fstat", 0, 1, EIO});
  const std::byte* const mapped = source.view();
  read_faults::disarm();
  if (read_faults::calls() == 0) GTEST_SKIP() << "fstat cannot be made to fail here";
  EXPECT_EQ(mapped, nullptr);
  EXPECT_NE(source.view(), nullptr);
}

}  // namespace
}  // namespace st::core::mapped_later_test
