// Tests the parts of docs/filesystems.md that can be tested here: a FUSE mount, and a wrong clock.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <set>

#include "../faults.hpp"
#include "../files.hpp"
#include "../system.hpp"
#include "io/edited_file.hpp"
#include "io/posix/edit.hpp"
#include "io/posix/file_source.hpp"

namespace st::io::linux_filesystems_test {
namespace {

// A folder and its mount by bindfs, a pass-through FUSE filesystem.
class FuseTest : public FolderTest {
 protected:
  FuseTest() = default;
  explicit FuseTest(const char* option) : option_(option) {}

  void SetUp() override {
    FolderTest::SetUp();
    fs::create_directories(real());
    fs::create_directories(mounted());
    if (!has_linux_io()) GTEST_SKIP() << "this build does not ask about mounts";
    if (geteuid() != 0) GTEST_SKIP() << "only root can unmount what a dead server left";
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse";
    start();
    if (!is_mounted()) GTEST_SKIP() << "bindfs is not installed, or mounting is not allowed";
  }
  void TearDown() override {
    stop(SIGTERM);
    umount2(mounted().c_str(), MNT_DETACH);
    FolderTest::TearDown();
  }

  void stop(int signal_number) {
    if (daemon_ <= 0) return;
    kill(daemon_, signal_number);
    waitpid(daemon_, nullptr, 0);
    daemon_ = -1;
  }

  fs::path real() const { return folder / "real"; }
  fs::path mounted() const { return folder / "mounted"; }
  std::string at(const char* name = "x") const { return mounted() / name; }
  // libfuse keeps a replaced file as .fuse_hidden... until its last descriptor is closed, and a moment longer.
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(real())) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(".fuse_hidden")) found.insert(name);
    }
    return found;
  }

 private:
  // It ends with this process.
  void start() {
    daemon_ = fork();
    if (daemon_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      for (const int number : {0, 1, 2}) dup2(null, number);
      execlp("bindfs", "bindfs", "-f", option_, real().c_str(), mounted().c_str(), nullptr);
      _exit(127);
    }
    while (!is_mounted()) {
      if (waitpid(daemon_, nullptr, WNOHANG) == daemon_) {
        daemon_ = -1;
        return;
      }
      usleep(1000);
    }
  }

  bool is_mounted() const {
    constexpr long kFuse = 0x65735546;
    struct statfs status {};
    return statfs(mounted().c_str(), &status) == 0 && status.f_type == kFuse;
  }

  const char* option_ = "--no-allow-other";
  pid_t daemon_ = -1;
};

// A server that accepts a new group, and does nothing.
class FuseWithoutGroupsTest : public FuseTest {
 protected:
  FuseWithoutGroupsTest() : FuseTest("--chgrp-ignore") {}
};

using Names = std::set<std::string>;

TEST_F(FuseTest, a_save_is_whole_and_leaves_nothing) {
  for (const bool sync : {false, true}) {
    write(at(), "new", {.replace = false, .sync = sync});
    EXPECT_EQ(contents(real() / "x"), "new");
    fs::permissions(at(), fs::perms{0640});
    write(at(), "newer", {.sync = sync});
    EXPECT_EQ(contents(real() / "x"), "newer");
    EXPECT_EQ(mode_of(real() / "x"), 0640U);
    EXPECT_EQ(error_of([&] { write(at(), "newest", {.replace = false, .sync = sync}); }).os_error, EEXIST);
    {
      const AtomicFile given_up = AtomicFile::create(at().c_str(), {});
      given_up.write_at(0, "half", 4);
    }
    EXPECT_EQ(names(), Names{"x"});
    fs::remove(at());
  }
}

TEST_F(FuseWithoutGroupsTest, the_rights_of_a_group_go_to_no_other) {
  put(real() / "x", "old");
  ASSERT_EQ(chown((real() / "x").c_str(), 0, 2000), 0);
  fs::permissions(real() / "x", fs::perms{0660});
  write(at(), "new");
  EXPECT_EQ(contents(real() / "x"), "new");
  EXPECT_EQ(mode_of(real() / "x"), 0600U);
}

// A save that removes its second link changes the time of change. The kernel notices that when its cache of the status
// expires, after a second.
TEST_F(FuseTest, a_file_just_saved_is_still_the_same_a_second_later) {
  write(at(), "bytes", {.replace = false});
  FileSource source(RegularFile::open(at().c_str()), 0, 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a tick of the clock for files
  fs::create_hard_link(real() / "x", real() / "y");
  fs::remove(real() / "y");
  source.release_descriptor();
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  std::string bytes(5, '\0');
  source.read_at(0, bytes.data(), 5);
  EXPECT_EQ(bytes, "bytes");
}

// The kernel answers from its cache for a second.
TEST_F(FuseTest, what_the_server_overwrites_is_noticed_at_once) {
  put(real() / "x", "old bytes");
  for (const bool kept : {true, false}) {
    RegularFile file = RegularFile::open(at().c_str());
    if (!kept) file.release_descriptor(false);
    EXPECT_EQ(file.overwritten(), Overwritten::no);
    put(real() / "x", kept ? "newer bytes" : "still newer bytes");  // longer: the times may not differ yet
    EXPECT_EQ(file.overwritten(), Overwritten::yes) << kept;
    file.release_descriptor(false);
    EXPECT_EQ(file.overwritten(), Overwritten::yes) << kept;
  }
  put(real() / "x", "the newest bytes");
  EXPECT_EQ(RegularFile::open(at().c_str()).size(), 16U);
}

TEST_F(FuseTest, a_save_over_one_file_notices_what_the_server_overwrites) {
  put(real() / "x", "old bytes");
  AtomicFile file = AtomicFile::create(at().c_str(), {.only_unchanged = true});
  put(real() / "x", "newer bytes");  // longer: the times may not differ yet
  EXPECT_EQ(error_of([&] { file.commit(); }).status, Status::state);
}

TEST_F(FuseTest, a_file_that_is_replaced_while_it_is_open_keeps_its_bytes) {
  put(real() / "x", "old bytes");
  {
    RegularFile plain = RegularFile::open(at().c_str());
    EXPECT_TRUE(plain.remote());
    const FileSource source(std::move(plain), 0, 9);
    write(at(), "new bytes");
    std::string bytes(9, '\0');
    source.read_at(0, bytes.data(), bytes.size());
    EXPECT_EQ(bytes, "old bytes");
  }
  EXPECT_EQ(contents(real() / "x"), "new bytes");
  EXPECT_EQ(names(), Names{"x"});
}

TEST_F(FuseTest, a_file_is_mapped_only_if_asked) {
  put(real() / "x", "bytes");
  for (const Mode mode : {Mode::automatic, Mode::map}) {
    FileSource source(RegularFile::open(at().c_str()), 0, 5);
    source.map(mode);
    EXPECT_EQ(source.is_mapped(), mode == Mode::map);
  }
  FileSource source(RegularFile::open(at().c_str()), 0, 5);
  source.map_at_first_view();
  EXPECT_EQ(source.view(), nullptr);
  EXPECT_EQ(FileReader(source, Cache::automatic).path_for(0, 5), ReadPath::buffered);
}

// A mapping does not keep the inode in use there, so times are compared as well.
TEST_F(FuseTest, another_file_under_the_name_is_never_read) {
  put(real() / "x", "old bytes");
  FileSource source(RegularFile::open(at().c_str()), 0, 9);
  source.release_descriptor();
  write(at(), "new bytes");
  std::string bytes(9, '\0');
  EXPECT_EQ(error_of([&] { source.read_at(0, bytes.data(), bytes.size()); }).status, Status::read);
  RegularFile edited = RegularFile::open(at().c_str());
  edited.release_descriptor(false);
  put(at(), "edited in place");
  EXPECT_EQ(error_of([&] { edited.read_at(0, bytes.data(), 1); }).status, Status::read);
}

TEST_F(FuseTest, an_edit_in_place_is_locked_against_processes_of_this_machine) {
  put(real() / "x", "old bytes");
  {
    EditedFile file = EditedFile::open(at().c_str());
    EXPECT_EQ(in_child([&] {
                return static_cast<int>(error_of([&] { EditedFile::open(at().c_str()); }).status == Status::state);
              }),
              1);
    EXPECT_EQ(file.patch(0, "new", 3, true), EditedFile::Patch::done);
  }
  EXPECT_EQ(contents(real() / "x"), "new bytes");
  const Descriptor ours(::open(at().c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(EditLock::exclusive(ours.get()).held());
}

TEST_F(FuseTest, only_what_a_dead_writer_left_is_removed) {
  put(real() / ".x.st-new-0123456789abcdef", "litter");
  put(real() / ".x.st-new-1123456789abcdef", "in use");
  const Descriptor held(::open(at(".x.st-new-1123456789abcdef").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  put(real() / "x", "old");
  write(at(), "new");
  EXPECT_EQ(names(), (Names{".x.st-new-1123456789abcdef", "x"}));
}

TEST_F(FuseTest, a_server_that_dies_is_an_error_and_no_signal) {
  put(real() / "x", std::string(1 << 20, 'o'));
  const FileSource source(RegularFile::open(at().c_str()), 0, 1 << 20);
  AtomicFile file = AtomicFile::create(at("y").c_str(), {});
  stop(SIGKILL);
  std::string bytes(1 << 20, '\0');
  EXPECT_EQ(error_of([&] { source.read_at(0, bytes.data(), bytes.size()); }).os_error, ENOTCONN);
  EXPECT_EQ(error_of([&] { file.commit(); }).os_error, ENOTCONN);
  EXPECT_EQ(error_of([&] { write(at(), "new"); }).os_error, ENOTCONN);
}

// Files cannot be written there, and a file's size is a multiple of a huge page.
TEST(HugeTlbFs, a_save_is_an_error_and_leaves_nothing) {
  const std::string at = testing::TempDir() + formatted("hugetlbfs{}", getpid());
  fs::create_directory(at);
  const int result = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", at.c_str(), "hugetlbfs", 0, nullptr) != 0) {
      return 255;
    }
    for (const std::size_t size : {std::size_t{100}, std::size_t{4} << 20}) {
      const Error error = error_of([&] { write(at + "/x", std::string(size, 'x')); });
      if (error.status != Status::write || error.os_error != EINVAL || !fs::is_empty(at)) return 1;
    }
    return 0;
  });
  fs::remove(at);
  if (result == 255) GTEST_SKIP() << "hugetlbfs cannot be mounted here";
  EXPECT_EQ(result, 0);
}

// Nobody could remove the temporary file there.
TEST_F(FolderTest, an_append_only_folder_is_refused_before_a_byte_is_written) {
  put(path(), "old");
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto set_flags = [&](int flags) { return ioctl(directory.get(), FS_IOC_SETFLAGS, &flags) == 0; };
  int flags = 0;
  const bool can = has_linux_io() && ioctl(directory.get(), FS_IOC_GETFLAGS, &flags) == 0;
  if (!can || !set_flags(flags | FS_APPEND_FL)) GTEST_SKIP() << "no append-only folders here";
  const Error error = error_of([&] { AtomicFile::create(path().c_str(), {}); });
  const bool added = error_of([&] { write(path("y"), "new"); }).status == Status::ok;
  faults::Plan kernel;
  kernel.no_nameless_files = true;
  kernel.only_refusals = true;
  faults::arm(kernel);
  const Error with_name = error_of([&] { write(path("z"), "new"); });
  faults::disarm();
  const Error too_late = error_of([&] {
    AtomicFile file = AtomicFile::create(path("taken").c_str(), {});
    put(path("taken"), "theirs");
    file.commit();
  });
  ASSERT_TRUE(set_flags(flags));
  EXPECT_EQ(with_name.os_error, EPERM) << with_name.message;
  EXPECT_EQ(error.status, Status::open);
  EXPECT_EQ(error.os_error, EPERM) << error.message;
  EXPECT_TRUE(added);
  EXPECT_EQ(contents(path()), "old");
  EXPECT_EQ(too_late.os_error, EPERM) << too_late.message;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 3);
}

TEST_F(FolderTest, an_append_only_file_is_refused_before_a_byte_is_written) {
  put(path(), "old");
  const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  const auto set_flags = [&](int flags) { return ioctl(file.get(), FS_IOC_SETFLAGS, &flags) == 0; };
  int flags = 0;
  const bool can = has_linux_io() && ioctl(file.get(), FS_IOC_GETFLAGS, &flags) == 0;
  if (!can || !set_flags(flags | FS_APPEND_FL)) GTEST_SKIP() << "this filesystem or user cannot make files append-only";
  const Error error = error_of([&] { AtomicFile::create(path().c_str(), {}); });
  ASSERT_TRUE(set_flags(flags));
  EXPECT_EQ(error.status, Status::open);
  EXPECT_EQ(error.os_error, EPERM) << error.message;
}

// ---- clocks --------------------------------------------------------------------------------------------------------

// With the process's clock behind or ahead of the clock that stamps files, as after a clock jump or with a file server.
class ClockTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    const std::time_t now = std::time(nullptr);
    faults::set_clock(kDay);
    if (std::time(nullptr) < now + kDay) GTEST_SKIP() << "the clock cannot be set here";
  }
  void TearDown() override {
    faults::set_clock(0);
    FolderTest::TearDown();
  }
  static constexpr long kDay = 86400;
};

// A reader whose clock is behind takes the lock more often than necessary. If it is ahead by more than five seconds, it
// misses an edit that has just begun.
TEST_F(ClockTest, only_one_that_is_ahead_hides_a_recent_change) {
  const struct {
    long offset;
    bool recent;
  } cases[] = {{-kDay, true}, {-1, true}, {0, true}, {4, true}, {7, false}, {kDay, false}};
  for (const auto& [offset, recent] : cases) {
    put(path(), formatted("{}", offset));
    const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    FileSource source(RegularFile::open(path().c_str()), 0, 1);
    faults::set_clock(offset);
    struct stat status {};
    ASSERT_EQ(fstat(file.get(), &status), 0);
    EXPECT_EQ(changed_lately(status), recent) << offset;
    EXPECT_EQ(source.changed_lately(), recent) << offset;
    source.release_descriptor();
    EXPECT_FALSE(source.changed_lately());  // nothing tells without a descriptor
  }
}

TEST_F(ClockTest, a_jump_changes_no_save_and_no_edit) {
  put(path(), "old bytes");
  for (const long offset : {-kDay, kDay}) {
    faults::set_clock(0);
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    file.write_at(0, "new bytes", 9);
    faults::set_clock(offset);
    file.commit();
    EXPECT_EQ(contents(path()), "new bytes");
    faults::set_clock(-offset);
    // Without Linux's locks no edit is made in place.
    EXPECT_EQ(EditedFile::open(path().c_str()).patch(0, "old", 3, false),
              has_linux_io() ? EditedFile::Patch::done : EditedFile::Patch::refused);
    EXPECT_EQ(contents(path()), has_linux_io() ? "old bytes" : "new bytes");
  }
}

}  // namespace
}  // namespace st::io::linux_filesystems_test
