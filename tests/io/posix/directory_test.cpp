// Which links leave a directory. core/checkpoint_test has the links that lead to a cache's files.
// SPDX-License-Identifier: Apache-2.0
#include "io/directory.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "../files.hpp"

namespace st::io::directory_test {
namespace {

class FoldersTest : public FolderTest {};

// For a directory that is not in a cache, /blobs is not a cache's directory of files.
TEST_F(FoldersTest, a_link_into_blobs_at_the_root_leaves_the_folder) {
  for (const char* const made : {"proc", "blobs", "model"}) fs::create_directory(folder / made);
  put(folder / "blobs" / "x", "x");
  put(folder / "model" / "y", "y");
  fs::create_symlink("../blobs/x", folder / "model" / "outside");
  fs::create_symlink("y", folder / "model" / "inside");
  const int result = in_child([&] {
    const bool alone = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!alone || mount("/proc", path("proc").c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return 99;
    if (chroot(folder.c_str()) != 0 || chdir("/") != 0) return 99;
    const auto model = open_directory("/model");
    if (error_of([&] { model->open("inside", false); }).status != Status::ok) return 1;
    return error_of([&] { model->open("outside", false); }).status == Status::shard ? 0 : 2;
  });
  if (result == 99) GTEST_SKIP() << "another root needs the rights of root";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace st::io::directory_test
