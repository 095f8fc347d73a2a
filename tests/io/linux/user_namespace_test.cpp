// User namespaces (rootless containers), in which all unmapped owners have the same number.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>

#include <array>
#include <functional>
#include <string>

#include "../files.hpp"
#include "../system.hpp"
#include "io/edited_file.hpp"
#include "io/posix/file.hpp"

namespace st::io::linux_user_namespace_test {
namespace {

constexpr uid_t kVictim = 1000;
constexpr uid_t kOther = 1001;
constexpr gid_t kUnmappedGroup = 2000;

bool put_line(const std::string& path, const std::string& line) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

// Runs the body as root of a namespace in which root is kVictim and other numbers, up to 65535, are unused ones outside.
// Returns what it returns, or -1 if there are no such namespaces here.
int in_container(const std::function<int()>& body) {
  std::array<int, 2> ready{};
  std::array<int, 2> mapped{};
  if (pipe(ready.data()) != 0 || pipe(mapped.data()) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    const gid_t group = kUnmappedGroup;
    const bool made = setgroups(1, &group) == 0 && setresgid(kVictim, kVictim, kVictim) == 0 &&
                      setresuid(kVictim, kVictim, kVictim) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0 &&
                      unshare(CLONE_NEWUSER) == 0 && ::write(ready[1], "x", 1) == 1 &&
                      ::read(mapped[0], &byte, 1) == 1 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0;
    _exit(made ? body() : 255);
  }
  ::close(ready[1]);
  char byte = 0;
  const std::string folder = "/proc/" + std::to_string(child);
  const std::string map = "0 1000 1\n1 100001 65535\n";
  const bool mapped_all = ::read(ready[0], &byte, 1) == 1 && put_line(folder + "/uid_map", map) &&
                          put_line(folder + "/gid_map", map) && ::write(mapped[1], "x", 1) == 1;
  for (const int end : {ready[0], mapped[0], mapped[1]}) ::close(end);
  int status = 0;
  waitpid(child, &status, 0);
  return mapped_all && WIFEXITED(status) && WEXITSTATUS(status) != 255 ? WEXITSTATUS(status) : -1;
}

class UserNamespaceTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "only root can map users";
    if (!has_linux_io()) GTEST_SKIP() << "this build does not know user namespaces";
    if (in_container([] { return 0; }) != 0) GTEST_SKIP() << "there are no user namespaces here";
  }
};

// The owner of the directory is root outside, which has the same number inside as the owner of the link.
TEST_F(UserNamespaceTest, what_others_put_into_a_sticky_folder_stays_foreign) {
  const std::string shared = path("shared");
  fs::create_directory(shared);
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  put(path("precious"), "precious");
  ASSERT_EQ(chown(path("precious").c_str(), kVictim, kVictim), 0);
  fs::create_symlink(path("precious"), shared + "/link");
  ASSERT_EQ(lchown((shared + "/link").c_str(), kOther, kOther), 0);
  put(shared + "/file", "file");
  ASSERT_EQ(chown((shared + "/file").c_str(), kOther, kOther), 0);
  ASSERT_EQ(chmod((shared + "/file").c_str(), 0666), 0);
  for (const char* const name : {"/link", "/file"}) {
    const std::string at = shared + name;
    EXPECT_EQ(in_container([&] { return error_of([&] { write(at, "mine"); }).os_error; }), EACCES) << name;
    EXPECT_EQ(in_container([&] { return error_of([&] { EditedFile::open(at.c_str()); }).os_error; }), EACCES) << name;
  }
  EXPECT_EQ(contents(path("precious")), "precious");
  EXPECT_EQ(contents(shared + "/file"), "file");
}

// The group has no number inside, and is shown by one that a group inside has, too.
TEST_F(UserNamespaceTest, an_unmapped_group_gives_its_rights_to_no_other) {
  // New files get the group of the saver, or that of the folder, which has no number inside either.
  for (const gid_t group : {kVictim, kUnmappedGroup + 1}) {
    fs::remove(path());
    put(path(), "old");
    ASSERT_EQ(chown(folder.c_str(), kVictim, group) | chmod(folder.c_str(), group == kVictim ? 0777 : 02777), 0);
    ASSERT_EQ(chown(path().c_str(), kVictim, kUnmappedGroup), 0);
    ASSERT_EQ(chmod(path().c_str(), 0660), 0);
    EXPECT_EQ(in_container([&] { return error_of([&] { write(path(), "new"); }).os_error; }), 0);
    EXPECT_EQ(contents(path()), "new");
    EXPECT_EQ(mode_of(path()), 0600U);
    struct stat status {};
    ASSERT_EQ(stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_gid, group);
  }
}

TEST_F(UserNamespaceTest, a_file_of_an_unmapped_owner_is_given_to_no_other) {
  put(path(), "old");
  ASSERT_EQ(chown(folder.c_str(), kVictim, kVictim) | chown(path().c_str(), kOther, kVictim), 0);
  ASSERT_EQ(chmod(path().c_str(), 0664), 0);
  EXPECT_EQ(in_container([&] { return error_of([&] { write(path(), "new"); }).os_error; }), 0);
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, kVictim);
  EXPECT_EQ(mode_of(path()), 0664U);  // the group has a number inside
}

}  // namespace
}  // namespace st::io::linux_user_namespace_test
