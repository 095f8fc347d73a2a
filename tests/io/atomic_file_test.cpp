// The target before, during and after a save: modes, links, leftover files, and targets that are not regular files.
// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "faults.hpp"
#include "files.hpp"
#include "io/edited_file.hpp"
#include "io/posix/file_source.hpp"
#include "read_faults.hpp"
#include "system.hpp"

namespace st::io::atomic_file_test {
namespace {

// Once with the kernel as it is, once as if it had no O_TMPFILE.
class AtomicFileTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fs::create_directories(folder);
    faults::Plan kernel;
    kernel.no_nameless_files = GetParam();
    kernel.only_refusals = true;
    faults::arm(kernel);
    umask(022);
  }
  void TearDown() override {
    faults::disarm();
    fs::remove_all(folder);
  }
  std::string path(const char* name = "x") const { return folder / name; }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder)) found.insert(entry.path().filename());
    return found;
  }

  const fs::path folder = fs::path(testing::TempDir()) / formatted("atomic{}", getpid());
};

INSTANTIATE_TEST_SUITE_P(Kernels, AtomicFileTest, testing::Values(false, true), [](const auto& kernel) {
  return kernel.param ? std::string("without_nameless_files") : std::string("as_it_is");
});

using Names = std::set<std::string>;

TEST_P(AtomicFileTest, nothing_is_there_until_commit_and_nothing_is_left_without_it) {
  put(path("old"), "old");
  {
    AtomicFile file = AtomicFile::create(path("old").c_str(), {});
    file.write_at(0, "new", 3);
    EXPECT_EQ(contents(path("old")), "old");
    AtomicFile absent = AtomicFile::create(path("absent").c_str(), {});
    EXPECT_FALSE(fs::exists(path("absent")));
  }
  EXPECT_EQ(names(), Names{"old"});
  write(path("old"), "new");
  EXPECT_EQ(contents(path("old")), "new");
  EXPECT_EQ(names(), Names{"old"});
}

TEST_P(AtomicFileTest, a_new_file_has_the_mode_that_the_umask_leaves) {
  for (const mode_t mask : {0U, 022U, 027U, 077U}) {
    umask(mask);
    fs::remove(path());
    write(path(), "x");
    EXPECT_EQ(mode_of(path()), 0666U & ~mask);
  }
}

TEST_P(AtomicFileTest, a_replaced_file_keeps_its_mode) {
  for (const mode_t mode : {0600U, 0640U, 0644U, 0666U, 0755U}) {
    umask(077);
    put(path(), "old");
    chmod(path().c_str(), mode);
    write(path(), "new");
    EXPECT_EQ(mode_of(path()), mode);
    EXPECT_EQ(contents(path()), "new");
  }
}

TEST_P(AtomicFileTest, a_replaced_file_keeps_its_owner) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  put(path(), "old");
  ASSERT_EQ(chown(path().c_str(), 12345, 23456), 0);
  write(path(), "new");
  struct stat status {};
  stat(path().c_str(), &status);
  EXPECT_EQ(status.st_uid, 12345U);
  EXPECT_EQ(status.st_gid, 23456U);
}

TEST_P(AtomicFileTest, a_link_is_followed_and_stays) {
  fs::create_directory(path("real"));
  put(path("real/blob"), "old");
  fs::create_symlink("real/blob", path("a"));
  fs::create_symlink("a", path("b"));
  write(path("b"), "new");
  EXPECT_TRUE(fs::is_symlink(path("a")) && fs::is_symlink(path("b")));
  EXPECT_EQ(contents(path("real/blob")), "new");
  fs::create_symlink("real/later", path("dangling"));
  write(path("dangling"), "made");
  EXPECT_EQ(contents(path("real/later")), "made");
  fs::create_symlink("loop", path("loop"));
  EXPECT_EQ(error_of([&] { write(path("loop"), "x"); }).os_error, ELOOP);
  for (int i = 0; i <= 40; ++i) fs::create_symlink(formatted("{}", i - 1), path(formatted("{}", i).c_str()));
  EXPECT_EQ(error_of([&] { write(path("39"), "40 links"); }).message, "");
  EXPECT_EQ(contents(path("-1")), "40 links");
  EXPECT_EQ(error_of([&] { write(path("40"), "41 links"); }).os_error, ELOOP);
}

TEST_P(AtomicFileTest, a_link_is_replaced_itself_if_asked) {
  const CreateOptions replacing{.replace_link = true};
  const std::string by_process = "/proc/self/root" + path("blob");
  for (const std::string to : {"blob", "nowhere", "link", "a", ".", by_process.c_str()}) {
    SCOPED_TRACE(to);
    put(path("blob"), "old");
    fs::permissions(path("blob"), fs::perms{0644});
    fs::create_symlink("blob", path("a"));
    fs::create_symlink(to, path("link"));
    put(path(".link.st-new-0123456789abcdef"), "litter");
    write(path("link"), "new", replacing);
    EXPECT_FALSE(fs::is_symlink(path("link")));
    EXPECT_EQ(contents(path("link")), "new");
    EXPECT_EQ(mode_of(path("link")), 0600U);
    EXPECT_EQ(contents(path("blob")), "old");
    EXPECT_EQ(names(), (Names{"a", "blob", "link"}));
    write(path("link"), "newer", replacing);  // a file now, like any other
    EXPECT_EQ(contents(path("link")), "newer");
    fs::remove(path("link"));
    fs::create_symlink(to, path("link"));
    write(path("link"), "newest", {.replace_link = true, .only_unchanged = true});
    EXPECT_EQ(contents(path("link")), "newest");
    fs::remove(path("link"));
    fs::remove(path("a"));
  }
  fs::create_symlink("blob", path("link"));
  EXPECT_EQ(error_of([&] { write(path("link"), "no", {.replace = false, .replace_link = true}); }).os_error, EEXIST);
  {
    const AtomicFile given_up = AtomicFile::create(path("link").c_str(), replacing);
    given_up.write_at(0, "half", 4);
  }
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(names(), (Names{"blob", "link"}));
}

// As /dev/stdout is.
TEST_P(AtomicFileTest, a_link_to_a_descriptor_is_followed_even_then) {
  put(path(), "old ");
  const Descriptor file(open(path().c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  fs::create_symlink(formatted("/proc/self/fd/{}", file.get()), path("link"));
  write(path("link"), "new", {.replace_link = true});
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(contents(path()), "old new");
}

// Another process creates it during the save.
TEST_P(AtomicFileTest, a_file_in_the_place_of_the_link_keeps_its_rights) {
  fs::create_symlink("blob", path("link"));
  AtomicFile file = AtomicFile::create(path("link").c_str(), {.replace_link = true});
  fs::remove(path("link"));
  put(path("link"), "theirs");
  fs::permissions(path("link"), fs::perms{0640});
  file.commit();
  EXPECT_EQ(contents(path("link")), "");
  EXPECT_EQ(mode_of(path("link")), 0640U);
  EXPECT_EQ(names(), Names{"link"});
}

// Regression: the link 1 was mistaken for a descriptor, and a save over it went to standard output.
TEST_P(AtomicFileTest, a_link_whose_name_is_a_number_is_followed) {
  for (const char* const name : {"1", "17"}) {
    put(path("real"), "old");
    fs::create_symlink("real", path(name));
    EXPECT_EQ(error_of([&] { write(path(name), "new"); }).message, "");
    EXPECT_EQ(contents(path("real")), "new");
  }
}

TEST_P(AtomicFileTest, a_hard_link_keeps_the_old_bytes) {
  put(path("a"), "old");
  fs::create_hard_link(path("a"), path("b"));
  write(path("a"), "new");
  EXPECT_EQ(contents(path("b")), "old");
}

TEST_P(AtomicFileTest, an_existing_path_is_an_error_if_asked) {
  CreateOptions options;
  options.replace = false;
  put(path(), "old");
  EXPECT_EQ(error_of([&] { write(path(), "new", options); }).os_error, EEXIST);
  fs::create_symlink("nowhere", path("dangling"));
  EXPECT_EQ(error_of([&] { write(path("dangling"), "new", options); }).os_error, EEXIST);
  // Another process creates the target after the file was begun.
  AtomicFile file = AtomicFile::create(path("race").c_str(), options);
  put(path("race"), "first");
  EXPECT_EQ(error_of([&] { file.commit(); }).os_error, EEXIST);
  EXPECT_EQ(contents(path("race")), "first");
  file = {};
  EXPECT_EQ(names(), (Names{"dangling", "race", "x"}));
}

TEST_P(AtomicFileTest, a_file_that_appears_meanwhile_is_replaced) {
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.write_at(0, "mine", 4);
  put(path(), "theirs");
  file.commit();
  EXPECT_EQ(contents(path()), "mine");
  EXPECT_EQ(names(), Names{"x"});
}

TEST_P(AtomicFileTest, a_new_file_gets_no_name_after_a_last_look_that_fails) {
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  EXPECT_EQ(error_of([&] { file.commit([] { fail(Status::read, "changed"); }); }).message, "changed");
  EXPECT_FALSE(fs::exists(path()));
}

// No other user may read the new file before it has the rights of the private file that it replaces.
TEST_P(AtomicFileTest, a_new_file_has_the_rights_of_one_that_appeared_before_it_has_a_name) {
  static fs::path here;
  static int readable;
  static void (*const appear)() = [] {
    put(here / "x", "private");
    fs::permissions(here / "x", fs::perms{0600});
  };
  here = folder;
  readable = 0;
  faults::Plan watching;
  watching.no_nameless_files = GetParam();
  watching.only_refusals = true;
  watching.before_open = [](const char* name, int) {
    if (name != std::string("x")) return;
    for (const auto& entry : fs::directory_iterator(here)) readable += (mode_of(entry.path()) & 077) != 0 ? 1 : 0;
  };
  for (const bool when_linked : {false, true}) {
    if (when_linked && !has_linux_io()) continue;  // its temporary file has had a name from the beginning
    fs::remove(path());
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    if (!when_linked) appear();
    watching.before_link = [](int, const char* name) {
      if (name == std::string("x")) appear();
    };
    faults::arm(watching);
    file.commit();
    faults::disarm();
    EXPECT_EQ(readable, 0) << when_linked;
  }
}

// Also between the last look at the name and the link to it.
TEST_P(AtomicFileTest, a_file_that_appears_at_any_moment_is_replaced_and_keeps_its_mode) {
  bool reached = true;
  for (std::size_t at = 0; reached; ++at) {
    SCOPED_TRACE(at);
    fs::remove(path());
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    file.write_at(0, "mine", 4);
    read_faults::Plan plan{"stat"};
    plan.before = [&](std::size_t number) {
      if (number != at) return;
      put(path(), "theirs");
      fs::permissions(path(), fs::perms{0640});
    };
    read_faults::arm(plan);
    const Error error = error_of([&] { file.commit(); });
    read_faults::disarm();
    reached = read_faults::calls() > at;
    EXPECT_EQ(error.message, "");
    EXPECT_EQ(contents(path()), "mine");
    EXPECT_EQ(mode_of(path()), reached ? 0640U : 0644U);
    EXPECT_EQ(names(), Names{"x"});
  }
}

// The target is opened for its lock after the bytes are synced, just before the rename.
TEST_P(AtomicFileTest, who_narrows_the_target_while_bytes_are_synced_is_heard) {
  put(path(), "old");
  fs::permissions(path(), fs::perms{0644});
  AtomicFile file = AtomicFile::create(path().c_str(), {.sync = true});
  file.write_at(0, "mine", 4);
  static std::string target;
  target = path();
  faults::Plan narrowing;
  narrowing.before_open = [](const char* name, int) {
    if (fs::path(name).filename() == fs::path(target).filename()) chmod(target.c_str(), 0600);
  };
  faults::arm(narrowing);
  file.commit();
  faults::disarm();
  EXPECT_EQ(contents(path()), "mine");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms{0600});
}

// Whether another process could now lock the file for an edit, or for reading its header.
bool could_lock(const std::string& path, short kind) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = off_t{1} << 62;
  lock.l_len = 1;
  const bool possible = fcntl(file, F_OFD_SETLK, &lock) == 0;
  close(file);
  return possible;
}

std::string locked_target;
bool edit_was_possible;
bool look_was_possible;

// No save can happen between an edit's last check of its target and its rename, and no reader or other save can lock
// it.
TEST_P(AtomicFileTest, the_file_that_is_replaced_is_locked_while_it_is_renamed_over) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  locked_target = path();
  faults::Plan watching;
  watching.no_nameless_files = GetParam();
  watching.only_refusals = true;
  watching.before_rename = [] {
    edit_was_possible = could_lock(locked_target, F_WRLCK);
    look_was_possible = could_lock(locked_target, F_RDLCK);
  };
  for (const bool edits : {false, true}) {
    SCOPED_TRACE(edits);
    put(path(), "old");
    const EditedFile edited = EditedFile::open(path().c_str());
    edit_was_possible = look_was_possible = true;
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    faults::arm(watching);
    edits ? file.commit_over(edited) : file.commit();
    faults::disarm();
    EXPECT_FALSE(edit_was_possible);
    EXPECT_FALSE(look_was_possible);
    EXPECT_TRUE(could_lock(path(), F_WRLCK));
  }
}

// Rights that change during the second sync are given too.
TEST_P(AtomicFileTest, rights_that_are_narrowed_during_each_sync_are_kept) {
  static mode_t next_mode;
  locked_target = path();
  faults::Plan narrowing;
  narrowing.no_nameless_files = GetParam();
  narrowing.only_refusals = true;
  narrowing.before_sync = [] {
    chmod(locked_target.c_str(), next_mode);
    next_mode = 0600;
  };
  put(path(), "old");
  CreateOptions synced;
  synced.sync = true;
  next_mode = 0640;
  AtomicFile file = AtomicFile::create(path().c_str(), synced);
  file.write_at(0, "new", 3);
  faults::arm(narrowing);
  file.commit();
  faults::disarm();
  EXPECT_EQ(contents(path()), "new");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0600));
}

// An edit could otherwise be lost between the look and the rename.
TEST_P(AtomicFileTest, the_last_look_is_taken_while_the_file_is_locked) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  for (const bool fails : {false, true}) {
    put(path(), "old");
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    file.write_at(0, "new", 3);
    bool could_edit = true;
    const Error error = error_of([&] {
      file.commit([&] {
        could_edit = could_lock(path(), F_WRLCK);
        if (fails) fail(Status::read, "changed");
      });
    });
    EXPECT_EQ(error.message, fails ? "changed" : "");
    EXPECT_FALSE(could_edit);
    EXPECT_EQ(contents(path()), fails ? "old" : "new");
    EXPECT_TRUE(could_lock(path(), F_WRLCK));
  }
}

// An edit locks the new file. A lock of the old one would not keep it out.
TEST_P(AtomicFileTest, a_file_that_takes_the_place_of_the_one_being_locked_is_locked_instead) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  static bool is_open;
  locked_target = path();
  put(path(), "old");
  put(path("y"), "newer");
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  faults::Plan watching;
  watching.no_nameless_files = GetParam();
  watching.only_refusals = true;
  watching.before_open = [](const char* name, int) { is_open = is_open || fs::path(name).filename() == "x"; };
  watching.before_rename = [] { edit_was_possible = could_lock(locked_target, F_WRLCK); };
  read_faults::Plan replacing{"stat"};
  replacing.before = [&](std::size_t) {
    if (is_open && fs::exists(path("y"))) fs::rename(path("y"), path());
  };
  is_open = false;
  edit_was_possible = true;
  faults::arm(watching);
  read_faults::arm(replacing);
  file.commit();
  read_faults::disarm();
  faults::disarm();
  EXPECT_FALSE(edit_was_possible);
  EXPECT_EQ(contents(path()), "");
  EXPECT_EQ(names(), Names{"x"});
}

TEST_P(AtomicFileTest, what_others_did_to_the_target_meanwhile_can_be_kept) {
  const struct {
    const char* name;
    void (*change)(const std::string& path);
    std::string left;
  } cases[] = {
      {"nothing", [](const std::string&) {}, "mine"},
      {"replaced", [](const std::string& at) { write(at, "newer"); }, "newer"},
      {"edited in place", [](const std::string& at) { put(at, "edited"); }, "edited"},
      {"removed", [](const std::string& at) { fs::remove(at); }, ""},
      {"made a link", [](const std::string& at) { fs::remove(at), fs::create_symlink("y", at); }, "other"},
  };
  for (const auto& [name, change, left] : cases) {
    SCOPED_TRACE(name);
    fs::remove(path());
    put(path(), "old");
    put(path("y"), "other");
    const EditedFile edited = EditedFile::open(path().c_str());
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    file.write_at(0, "mine", 4);
    change(path());
    const Error error = error_of([&] { file.commit_over(edited); });
    EXPECT_EQ(error.status, left == "mine" ? Status::ok : Status::state) << error.message;
    EXPECT_EQ(contents(path()), left);
    file = {};
    EXPECT_EQ(names(), fs::exists(path()) ? (Names{"x", "y"}) : Names{"y"});
    EXPECT_EQ(error.message.find("was removed") != std::string::npos, name == std::string("removed"));
  }
  put(path(), "old");
  const EditedFile edited = EditedFile::open(path().c_str());
  fs::remove(path());
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  EXPECT_EQ(error_of([&] { file.commit_over(edited); }).status, Status::state);
  EXPECT_FALSE(fs::exists(path()));
}

TEST_P(AtomicFileTest, what_can_never_be_written_is_refused) {
  fs::create_directory(path("folder"));
  EXPECT_EQ(error_of([&] { write(path("folder"), "x"); }).os_error, EISDIR);
  for (const char* const end : {"/", "/.", "/.."}) {
    EXPECT_EQ(error_of([&] { write(path("folder") + end, "x"); }).os_error, EISDIR) << end;
  }
  EXPECT_EQ(error_of([&] { write("", "x"); }).os_error, ENOENT);
  EXPECT_EQ(error_of([&] { write(path("no/x"), "x"); }).os_error, ENOENT);
  put(path("file"), "");
  EXPECT_EQ(error_of([&] { write(path("file/x"), "x"); }).os_error, ENOTDIR);
  const std::string too_long = path(std::string(256, 'n').c_str());
  EXPECT_EQ(error_of([&] { AtomicFile::create(too_long.c_str(), {}); }).os_error, ENAMETOOLONG);
}

// The temporary name begins with as many whole characters of the target's name as fit.
TEST_P(AtomicFileTest, the_longest_name_works) {
  std::string two_bytes = "n";
  while (two_bytes.size() < 255) two_bytes += "\xC3\xA9";
  for (const std::string& name : {std::string(255, 'n'), two_bytes, std::string(255, '\x80')}) {
    write(path(name.c_str()), "1");
    {
      const AtomicFile file = AtomicFile::create(path(name.c_str()).c_str(), {});
      for (const std::string& beside : names()) {
        EXPECT_EQ(beside.find("\xC3."), beside.npos) << beside;
        EXPECT_TRUE(beside.size() > 250 || name[0] != 'n') << beside;
      }
    }
    write(path(name.c_str()), "2");
    EXPECT_EQ(contents(path(name.c_str())), "2");
    EXPECT_EQ(names(), Names{name});
    fs::remove(path(name.c_str()));
  }
}

TEST_P(AtomicFileTest, a_read_only_file_is_not_replaced) {
  put(path(), "old");
  chmod(path().c_str(), 0444);
  chmod(folder.c_str(), 0777);
  const pid_t pid = fork();
  if (pid == 0) {
    if (geteuid() == 0 && setuid(12345) != 0) _exit(9);
    _exit(error_of([&] { write(path(), "new"); }).os_error);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), EACCES);
  EXPECT_EQ(contents(path()), "old");
}

// ---- copying -------------------------------------------------------------------------------------------------------

TEST_P(AtomicFileTest, copies_a_mapped_file_without_a_free_descriptor) {
  if (!has_linux_io()) GTEST_SKIP() << "this build copies mapped pages through a pipe, which needs descriptors";
  const std::string data(100'000, 'd');
  put(path("source"), data);
  RegularFile plain = RegularFile::open(path("source").c_str());
  FileSource source(std::move(plain), 0, data.size());
  source.map(Mode::map);
  source.release_descriptor();
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.set_size(data.size());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Error error = error_of([&] { file.copy_at(0, source, 0, data.size()); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error.message, "");
  file.commit();
  EXPECT_TRUE(contents(path()) == data);
}

TEST_P(AtomicFileTest, a_hole_is_copied_as_a_hole) {
  if (!has_linux_io()) GTEST_SKIP() << "no copies in the kernel in this build";
  constexpr std::uint64_t kSize = std::uint64_t{1} << 30;
  const int made = open(path("source").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(ftruncate(made, kSize), 0);
  ASSERT_EQ(pwrite(made, "begin", 5, 0), 5);
  ASSERT_EQ(pwrite(made, "middle", 6, kSize / 2 + 12345), 6);
  close(made);
  const FileSource source(RegularFile::open(path("source").c_str()), 0, kSize);
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.set_size(kSize + 8);
  file.copy_at(8, source, 0, kSize);
  file.copy_at(16384, source, 8192, 8192);  // nothing but a hole
  file.commit();
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kSize + 8);
  EXPECT_LT(status.st_blocks, 1000);
  const RegularFile now = RegularFile::open(path().c_str());
  std::array<char, 14> bytes{};
  now.read_at(8, bytes.data(), bytes.size());
  EXPECT_EQ(std::string_view(bytes.data(), 6), std::string_view("begin\0", 6));
  now.read_at(kSize / 2 + 12345 + 4, bytes.data(), bytes.size());
  EXPECT_EQ(std::string_view(bytes.data(), bytes.size()), std::string_view("\0\0\0\0middle\0\0\0\0", 14));
}

// The bytes of a file do not pass through this process if the kernel can copy them.
TEST_P(AtomicFileTest, a_file_is_copied_by_the_kernel) {
  if (!has_linux_io()) GTEST_SKIP() << "no copies in the kernel in this build";
  std::string text(1'700'000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256 + i / 65536);
  put(path("source"), text);
  const Descriptor theirs(open(path("source").c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor probe(open(path("probe").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (copy_file_range(theirs.get(), nullptr, probe.get(), nullptr, 1, 0) != 1) GTEST_SKIP() << "this one cannot";
  for (const char* const way :
       {"by descriptor", "by path", "by path, without a descriptor", "interrupted", "by hand", "half of it by hand"}) {
    SCOPED_TRACE(way);
    const bool by_path = way != std::string_view("by descriptor");
    RegularFile plain = by_path ? RegularFile::open(path("source").c_str()) : RegularFile::duplicate(theirs.get());
    FileSource source(std::move(plain), 100, text.size() - 100);
    if (way == std::string_view("by path, without a descriptor")) {
      source.map(Mode::map);
      source.release_descriptor();
    }
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    file.set_size(1000 + 1'500'000);
    faults::Plan counting;
    counting.no_kernel_copies = way == std::string_view("by hand");
    counting.half_a_copy = way == std::string_view("half of it by hand");
    const bool by_kernel = !counting.no_kernel_copies && !counting.half_a_copy;
    counting.action = faults::Action::fail;
    counting.error = EINTR;
    if (way == std::string_view("interrupted")) counting.at = 1;  // space is taken first
    faults::arm(counting);
    file.copy_at(1000, source, 50, 1'500'000);
    const std::vector<std::string> calls = faults::calls();
    faults::disarm();
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "pwrite") == 0, by_kernel);
    const auto copies = std::count(calls.begin(), calls.end(), "copy_file_range");
    EXPECT_EQ(copies > 0, !counting.no_kernel_copies);
    EXPECT_LT(copies, 9);
    file.commit();
    EXPECT_TRUE(contents(path()) == std::string(1000, '\0') + text.substr(150, 1'500'000));
  }
}

// The memory does not depend on the size of the file.
TEST_P(AtomicFileTest, a_copy_by_hand_takes_little_memory) {
  const Callbacks refusing{[](void*, std::uint64_t, void*, std::size_t) { return 1; }};
  constexpr std::uint64_t kSize = std::uint64_t{1} << 50;
  const auto source = callback_source(refusing, kSize);
  const AtomicFile file = AtomicFile::create(path().c_str(), {});
  EXPECT_EQ(error_of([&] { file.copy_at(0, *source, 0, kSize); }).status, Status::callback);
}

// Large copies allocate their blocks in advance, unless blocks may be shared. If that fails, the copy is still tried.
TEST_P(AtomicFileTest, space_is_taken_for_a_large_copy_that_shares_no_blocks) {
  if (!has_linux_io()) GTEST_SKIP() << "no copies in the kernel in this build";
  constexpr std::size_t kSize = std::size_t{2} << 20;
  put(path("source"), std::string(kSize + 8, 'x'));
  const FileSource source(RegularFile::open(path("source").c_str()), 0, kSize + 8);
  const struct {
    std::size_t from, to, size;
    bool takes;
  } copies[] = {{0, 8, kSize, true},     {8, 0, kSize, true},          {8, 8, kSize, true},
                {0, 4096, kSize, false}, {0, 8, kSize / 2 - 1, false}, {0, 8, kSize / 2, true}};
  for (const auto& copy : copies) {
    for (const int error : {0, ENOSPC, EOPNOTSUPP}) {
      AtomicFile file = AtomicFile::create(path().c_str(), {});
      file.set_size(copy.to + copy.size);
      faults::Plan plan;
      if (error != 0 && copy.takes) plan.at = 0;
      plan.action = faults::Action::fail;
      plan.error = error;
      faults::arm(plan);
      file.copy_at(copy.to, source, copy.from, copy.size);
      const std::vector<std::string> calls = faults::calls();
      faults::disarm();
      EXPECT_EQ(std::count(calls.begin(), calls.end(), "fallocate"), copy.takes ? 1 : 0);
      file.commit();
      EXPECT_TRUE(contents(path()) == std::string(copy.to, '\0') + std::string(copy.size, 'x'));
    }
  }
}

TEST_P(AtomicFileTest, the_space_that_is_taken_is_the_new_files) {
  if (!has_linux_io()) GTEST_SKIP() << "this build does not allocate space in advance";
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  faults::Plan recording;
  recording.record_changes = true;
  faults::arm(recording);
  file.reserve(100);
  const std::vector<faults::Change> changes = faults::changes();
  faults::disarm();
  file.commit();
  const Descriptor made(open(path().c_str(), O_RDWR | O_CLOEXEC));
  if (fallocate(made.get(), 0, 0, 1) != 0) GTEST_SKIP() << "this filesystem cannot allocate space in advance";
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].inode, status.st_ino);
  EXPECT_EQ(changes[0].value, 100U);
}

// Truncating a file during its copy gives an error, not zeros.
TEST_P(AtomicFileTest, what_is_cut_off_is_not_taken_for_a_hole) {
  put(path("source"), std::string(100, 'x'));
  const FileSource source(RegularFile::open(path("source").c_str()), 0, 100);
  ASSERT_EQ(truncate(path("source").c_str(), 50), 0);
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.set_size(100);
  EXPECT_EQ(error_of([&] { file.copy_at(60, source, 60, 40); }).status, Status::truncated);
}

// The position of the caller's descriptor does not change.
TEST_P(AtomicFileTest, copying_from_a_descriptor_leaves_its_position) {
  put(path("source"), std::string(100, 'x'));
  const int theirs = open(path("source").c_str(), O_RDONLY);
  ASSERT_EQ(lseek(theirs, 7, SEEK_SET), 7);
  const FileSource source(RegularFile::duplicate(theirs), 0, 100);
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.set_size(100);
  file.copy_at(0, source, 0, 100);
  EXPECT_EQ(lseek(theirs, 0, SEEK_CUR), 7);
  close(theirs);
}

// ---- leftovers -----------------------------------------------------------------------------------------------------

TEST_P(AtomicFileTest, what_a_dead_writer_left_is_removed) {
  put(path(), "old");
  put(path(".x.st-new-0"), "litter of version 0.1");
  put(path(".x.st-new-0123456789abcdef"), "litter");
  put(path(".x.st-new-notes"), "of somebody");
  put(path(".x.st-new-"), "of somebody");
  put(path(".xy.st-new-0123456789abcdef"), "of another target");
  write(path(), "new");
  EXPECT_EQ(names(), (Names{".x.st-new-", ".x.st-new-notes", ".xy.st-new-0123456789abcdef", "x"}));
}

// A nameless file does not need a search of its directory, which may be large.
TEST_P(AtomicFileTest, litter_is_removed_where_a_new_file_has_a_name_at_once) {
  put(path(".x.st-new-0"), "litter");
  const AtomicFile file = AtomicFile::create(path().c_str(), {});
  EXPECT_EQ(names().size(), 1U);  // the litter, or the file
}

TEST_P(AtomicFileTest, what_cannot_be_linked_is_copied_in_full_and_litter_is_removed) {
  put(path(".x.st-new-0"), "litter");
  faults::Plan kernel;
  kernel.no_nameless_files = GetParam();
  kernel.no_links = true;
  kernel.only_refusals = true;
  faults::arm(kernel);
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.set_size(100'000);
  file.write_at(0, "new", 3);  // and a hole
  file.commit();
  EXPECT_TRUE(contents(path()) == "new" + std::string(100'000 - 3, '\0'));
  EXPECT_EQ(names(), Names{"x"});
}

// One to three digits, as in version 0.1, or sixteen: each from 0 to f, and no adjacent character.
TEST_P(AtomicFileTest, only_what_a_writer_would_have_called_so_is_removed) {
  Names stay{"x"};
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  for (const char c : {'.', ':', '0', '9', '@', 'A', 'F', 'G', '`', 'a', 'f', 'g', '-', '_'}) {
    for (std::size_t size = 1; size <= 18; ++size) {
      const bool goes = is_digit(c) && (size <= 3 || size == 16);
      const std::string name = ".x.st-new-" + std::string(size, c);
      put(path(name.c_str()), "bytes");
      if (!goes) stay.insert(name);
    }
    for (const std::size_t at : {0U, 7U, 15U}) {
      std::string digits = "0123456789abcdef";
      digits[at] = c;
      const std::string name = ".x.st-new-" + digits;
      put(path(name.c_str()), "bytes");
      if (!is_digit(c)) stay.insert(name);
    }
  }
  put(path(), "old");
  write(path(), "new");
  EXPECT_EQ(names(), stay);
}

TEST_P(AtomicFileTest, what_a_living_writer_holds_is_not) {
  put(path(".x.st-new-0"), "in use");
  const int held = open(path(".x.st-new-0").c_str(), O_RDONLY);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  put(path(), "old");
  write(path(), "new");
  EXPECT_EQ(names(), (Names{".x.st-new-0", "x"}));
  EXPECT_EQ(contents(path(".x.st-new-0")), "in use");
  close(held);
}

TEST_P(AtomicFileTest, what_is_no_file_of_ours_is_not) {
  fs::create_symlink("elsewhere", path(".x.st-new-0"));
  fs::create_directory(path(".x.st-new-1"));
  ASSERT_EQ(mkfifo(path(".x.st-new-2").c_str(), 0600), 0);
  put(path(), "old");
  static std::set<std::string> opened;
  opened.clear();
  faults::Plan watching;
  watching.no_nameless_files = GetParam();
  watching.only_refusals = true;
  watching.before_open = [](const char* name, int) { opened.insert(name); };
  faults::arm(watching);
  write(path(), "new");
  faults::disarm();
  EXPECT_EQ(names(), (Names{".x.st-new-0", ".x.st-new-1", ".x.st-new-2", "x"}));
  EXPECT_EQ(contents(path()), "new");
  for (const char* const name : {".x.st-new-0", ".x.st-new-1", ".x.st-new-2"}) {
    EXPECT_FALSE(opened.contains(name)) << name;  // not even opened
  }
}

// A writer gives its file to the target's owner before the rename, and may be killed between the two.
TEST_P(AtomicFileTest, what_a_dead_writer_left_to_the_owner_of_the_target_is_removed) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  const std::string ours = ".x.st-new-0123456789abcdef";
  const std::string of_the_owner = ".x.st-new-1123456789abcdef";
  const std::string of_another = ".x.st-new-2123456789abcdef";
  for (const std::string& name : {std::string("x"), ours, of_the_owner, of_another}) put(path(name.c_str()), "bytes");
  ASSERT_EQ(chown(path().c_str(), 12345, 12345) | chown(path(of_the_owner.c_str()).c_str(), 12345, 12345) |
                chown(path(of_another.c_str()).c_str(), 12346, 12346),
            0);
  write(path(), "new");
  EXPECT_EQ(names(), (Names{of_another, "x"}));
  // A user does not remove temporary files of root.
  put(path(".y.st-new-0"), "root's");
  ASSERT_EQ(chown(folder.c_str(), 12345, 12345), 0);
  EXPECT_EQ(as_user(12345, 12345, [&] { return error_of([&] { write(path("y"), "new"); }).os_error; }), 0);
  EXPECT_TRUE(fs::exists(path(".y.st-new-0")));
}

TEST_P(AtomicFileTest, litter_that_another_user_takes_over_is_not_removed) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  static std::string litter;
  litter = path(".x.st-new-0123456789abcdef");
  for (const std::string& made : {path(), litter}) put(made, "bytes");
  faults::Plan giving;
  giving.no_nameless_files = GetParam();
  giving.only_refusals = true;
  giving.before_open = [](const char* name, int) {
    if (!litter.ends_with(name)) return;
    EXPECT_EQ(chown(litter.c_str(), 12345, 12345), 0);
  };
  faults::arm(giving);
  write(path(), "new");
  faults::disarm();
  EXPECT_EQ(contents(litter), "bytes");
}

// A writer gives its file the mode of the target before the rename. Its owner may then have no right to write to it.
TEST_P(AtomicFileTest, what_a_dead_writer_left_and_may_only_be_read_is_removed) {
  put(path(), "old");
  put(path(".x.st-new-0123456789abcdef"), "litter");
  ASSERT_EQ(chmod(path(".x.st-new-0123456789abcdef").c_str(), 0400), 0);
  if (geteuid() == 0) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (chown(entry.path().c_str(), 12345, 12345) != 0)
        GTEST_SKIP() << "needs root that may change the owner of files";
    }
    ASSERT_EQ(chown(folder.c_str(), 12345, 12345), 0);
    EXPECT_EQ(as_user(12345, 12345, [&] { return error_of([&] { write(path(), "new"); }).os_error; }), 0);
  } else {
    write(path(), "new");
  }
  EXPECT_EQ(contents(path()), "new");
  EXPECT_EQ(names(), Names{"x"});
}

// Whichever query about the new file fails, the target keeps its access, and no other file remains.
TEST_P(AtomicFileTest, a_file_that_cannot_be_looked_at_is_not_left_behind) {
  for (const char* const call : {"stat", "fstat"}) {
    bool failed = true;
    for (std::size_t at = 0; failed; ++at) {
      SCOPED_TRACE(formatted("{} {}", call, at));
      put(path(), "old");
      chmod(path().c_str(), 0600);
      read_faults::arm({call, at, 1, EIO});
      const Error error = error_of([&] { write(path(), "new"); });
      read_faults::disarm();
      failed = read_faults::calls() > at;
      EXPECT_EQ(names(), Names{"x"});
      EXPECT_EQ(contents(path()), error.status == Status::ok ? "new" : "old") << error.message;
      EXPECT_EQ(mode_of(path()), 0600U);
    }
  }
}

// ENOENT: the name is gone, for this process or for another.
TEST_P(AtomicFileTest, a_new_name_that_seems_to_be_gone_is_not_left_behind) {
  bool failed = true;
  for (std::size_t at = 0; failed; ++at) {
    SCOPED_TRACE(at);
    put(path(), "old");
    read_faults::arm({"stat", at, 1, ENOENT});
    const Error error = error_of([&] { write(path(), "new"); });
    read_faults::disarm();
    failed = read_faults::calls() > at;
    EXPECT_EQ(names(), Names{"x"});
    EXPECT_EQ(contents(path()), error.status == Status::ok ? "new" : "old") << error.message;
  }
}

// Not every filesystem can sync a directory.
TEST_P(AtomicFileTest, a_folder_that_cannot_be_synced_is_no_error) {
  faults::Plan plan;
  plan.no_nameless_files = GetParam();
  faults::arm(plan);
  write(path(), "old", {.sync = true});
  const std::vector<std::string> calls = faults::calls();
  faults::disarm();
  const auto synced = std::find(calls.begin(), calls.end(), "fsync folder");
  ASSERT_NE(synced, calls.end());
  plan.at = static_cast<std::size_t>(synced - calls.begin());
  plan.action = faults::Action::fail;
  for (const int error : {EINVAL, EIO}) {
    fs::remove(path());
    plan.error = error;
    faults::arm(plan);
    const Error thrown = error_of([&] { write(path(), "new", {.sync = true}); });
    faults::disarm();
    EXPECT_EQ(thrown.status, error == EINVAL ? Status::ok : Status::write) << thrown.message;
    EXPECT_EQ(contents(path()), "new");
  }
}

// Otherwise a loss of power after the rename, which reaches the disk within seconds, could leave neither file's bytes.
TEST_P(AtomicFileTest, the_bytes_of_a_replacement_are_on_their_way_before_it_is_renamed) {
  if (!has_linux_io()) GTEST_SKIP() << "no such call in this build";
  for (const bool replaces : {false, true}) {
    for (const bool syncs : {false, true}) {
      fs::remove(path());
      if (replaces) put(path(), "old");
      faults::Plan counting;
      counting.no_nameless_files = GetParam();
      faults::arm(counting);
      write(path(), "new", {.sync = syncs});
      const std::vector<std::string> calls = faults::calls();
      faults::disarm();
      const auto begun = std::find(calls.begin(), calls.end(), "sync_file_range");
      const auto renamed =
          std::find_if(calls.begin(), calls.end(), [](const auto& call) { return call.starts_with("rename"); });
      EXPECT_EQ(begun < renamed && begun != calls.end(), replaces && !syncs) << replaces << syncs;
      EXPECT_EQ(std::count(calls.begin(), calls.end(), "close of none"), 0);
    }
  }
}

// Another process that looks for stale files may have locked it.
TEST_P(AtomicFileTest, a_new_file_that_cannot_be_locked_is_not_left_behind) {
  faults::Plan kernel;
  kernel.no_nameless_files = true;
  faults::arm(kernel);
  write(path(), "new");
  const std::vector<std::string> calls = faults::calls();
  fs::remove(path());
  const auto lock = std::find(calls.begin(), calls.end(), "flock");
  ASSERT_NE(lock, calls.end());
  faults::Plan refusing = kernel;
  refusing.at = static_cast<std::size_t>(lock - calls.begin());
  refusing.action = faults::Action::fail;
  refusing.error = EWOULDBLOCK;
  faults::arm(refusing);
  EXPECT_EQ(error_of([&] { write(path(), "new"); }).message, "");
  faults::disarm();
  EXPECT_EQ(contents(path()), "new");
  EXPECT_EQ(names(), Names{"x"});
}

TEST_P(AtomicFileTest, names_that_somebody_occupied_beforehand_do_not_matter) {
  for (int i = 0; i < 1000; ++i) fs::create_symlink("nowhere", path(formatted(".x.st-new-{}", i).c_str()));
  put(path(), "old");
  write(path(), "new");
  EXPECT_EQ(contents(path()), "new");
}

TEST_P(AtomicFileTest, a_forked_child_does_not_hold_the_lock_of_what_its_parent_wrote) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  put(path(), "old");
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  AtomicFile absent = AtomicFile::create(path("y").c_str(), {});
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    char end;
    _exit(static_cast<int>(read(ends[0], &end, 1)));
  }
  close(ends[0]);
  file.commit();
  absent.commit();
  for (const char* const name : {"x", "y"}) {
    const int opened = open(path(name).c_str(), O_RDONLY);
    EXPECT_EQ(flock(opened, LOCK_EX | LOCK_NB), 0) << name;
    close(opened);
  }
  close(ends[1]);
  waitpid(child, nullptr, 0);
}

TEST_P(AtomicFileTest, a_forked_child_removes_nothing_of_its_parents) {
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.write_at(0, "new", 3);
  const pid_t child = fork();
  if (child == 0) {
    file = {};
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(error_of([&] { file.commit(); }).message, "");
  EXPECT_EQ(contents(path()), "new");
}

// The child would publish the parent's bytes, and then the parent would publish them again.
TEST_P(AtomicFileTest, a_forked_child_cannot_finish_what_its_parent_began) {
  put(path("old"), "old");
  for (const char* const name : {"old", "new", "/dev/null"}) {
    SCOPED_TRACE(name);
    AtomicFile file = AtomicFile::create(name[0] == '/' ? name : path(name).c_str(), {});
    file.write_at(0, "bytes", 5);
    const int status = in_child([&] { return static_cast<int>(error_of([&] { file.commit(); }).status); });
    EXPECT_EQ(status, static_cast<int>(Status::state));
    EXPECT_EQ(error_of([&] { file.commit(); }).message, "");
  }
  EXPECT_EQ(contents(path("old")), "bytes");
  EXPECT_EQ(contents(path("new")), "bytes");
  EXPECT_EQ(names(), (Names{"new", "old"}));
}

// The child's descriptor refers to the file that the parent has published.
TEST_P(AtomicFileTest, a_forked_child_cannot_write_what_its_parent_finished) {
  put(path("source"), "other");
  const FileSource source(RegularFile::open(path("source").c_str()), 0, 5);
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.write_at(0, "bytes", 5);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    char end;
    static_cast<void>(read(ends[0], &end, 1));
    const Error written = error_of([&] { file.write_at(0, "other", 5); });
    const Error sized = error_of([&] { file.set_size(9); });
    const Error copied = error_of([&] { file.copy_at(0, source, 0, 5); });
    _exit(written.status == Status::state && sized.status == Status::state && copied.status == Status::state ? 0 : 1);
  }
  close(ends[0]);
  file.commit();
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(contents(path()), "bytes");
}

TEST_P(AtomicFileTest, many_writers_of_one_target_leave_one_whole_file) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 25; ++round) write(path(), std::string(100'000, static_cast<char>('a' + i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string bytes = contents(path());
  EXPECT_EQ(bytes, std::string(100'000, bytes.at(0)));
  EXPECT_EQ(names(), Names{"x"});
}

// ---- streams -------------------------------------------------------------------------------------------------------

TEST_P(AtomicFileTest, a_fifo_is_written_through_in_order) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = contents(path()); });
  AtomicFile file = AtomicFile::create(path().c_str(), {true, true});
  EXPECT_TRUE(file.in_order());
  file.set_size(200'000);
  const std::string text(100'000, 'a');
  file.write_at(0, text.data(), text.size());
  EXPECT_EQ(error_of([&] { file.write_at(0, "x", 1); }).status, Status::state);
  file.write_at(text.size(), text.data(), text.size());
  file.commit();
  reader.join();
  EXPECT_EQ(got, text + text);
  EXPECT_EQ(names(), Names{"x"});
}

TEST_P(AtomicFileTest, a_fifo_whose_reader_leaves_is_an_error_and_no_signal) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  std::thread reader([&] { close(open(path().c_str(), O_RDONLY)); });
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  reader.join();
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(error_of([&] { file.write_at(0, text.data(), text.size()); }).os_error, EPIPE);
}

TEST_P(AtomicFileTest, devices) {
  write("/dev/null", "gone");
  const Error full = error_of([&] { write("/dev/full", "x"); });
  EXPECT_EQ(full.os_error, ENOSPC);
  EXPECT_EQ(full.message, "'/dev/full': writing 1 bytes at 0: No space left on device");
}

TEST_P(AtomicFileTest, an_open_descriptor_goes_on_where_it_is) {
  const struct {
    const char* name;
    int number;
  } cases[] = {{"/dev/stdin", 0}, {"/dev/stdout", 1}, {"/dev/stderr", 2},      {"/dev/fd/0", 0},
               {"/dev/fd/1", 1},  {"/dev/fd/17", 17}, {"/proc/self/fd/17", 17}};
  for (const auto& [name, number] : cases) {
    put(path(), "before ");
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open(path().c_str(), O_WRONLY | O_APPEND), number);
      write(name, "after");
      _exit(0);
    }
    waitpid(pid, nullptr, 0);
    EXPECT_EQ(contents(path()), "before after") << name;
  }
}

TEST_P(AtomicFileTest, a_synced_save_to_a_descriptor_syncs_its_file) {
  put(path(), "");
  const Descriptor file(open(path().c_str(), O_WRONLY | O_CLOEXEC));
  faults::Plan recording;
  recording.record_changes = true;
  faults::arm(recording);
  write(formatted("/dev/fd/{}", file.get()), "new", {.sync = true});
  faults::disarm();
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  ASSERT_EQ(faults::changes().size(), 1U);
  EXPECT_EQ(faults::changes()[0].inode, status.st_ino);
}

// The lock belongs to the caller, who opened the file.
TEST_P(AtomicFileTest, a_save_to_a_descriptor_that_is_given_up_leaves_its_lock) {
  put(path(), "");
  const Descriptor file(open(path().c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(flock(file.get(), LOCK_EX), 0);
  AtomicFile::create(formatted("/dev/fd/{}", file.get()).c_str(), {});
  const Descriptor other(open(path().c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_NE(flock(other.get(), LOCK_EX | LOCK_NB), 0);
}

// Old bytes after the descriptor's position would remain after the new bytes.
TEST_P(AtomicFileTest, a_descriptor_in_front_of_old_bytes_is_refused) {
  const std::string old = "old and longer";
  const struct {
    const char* name;
    int flags;
    off_t position;
    std::string left;
  } cases[] = {
      {"at the beginning", O_WRONLY, 0, old},
      {"in the middle", O_RDWR, 5, old},
      {"before the last byte", O_WRONLY, 13, old},
      {"at the end", O_WRONLY, 14, old + "new"},
      {"appending", O_WRONLY | O_APPEND, 0, old + "new"},
      {"emptied", O_WRONLY | O_TRUNC, 0, "new"},
  };
  for (const auto& [name, flags, position, left] : cases) {
    SCOPED_TRACE(name);
    put(path(), old);
    const Descriptor file(open(path().c_str(), flags | O_CLOEXEC));
    ASSERT_EQ(lseek(file.get(), position, SEEK_SET), position);
    for (const std::string folder_of : {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"}) {
      const Error error = error_of([&] { write(folder_of + std::to_string(file.get()), "new"); });
      EXPECT_EQ(error.status, left == old ? Status::open : Status::ok) << error.message;
      EXPECT_EQ(contents(path()), left);
      if (left != old) break;
      EXPECT_NE(error.message.find(formatted("at byte {} of a file of 14 bytes", position)), std::string::npos)
          << error.message;
    }
  }
}

// Of this or another process, in any spelling. The text of such a link is a path that may lead to another file by now.
TEST_P(AtomicFileTest, a_descriptor_by_another_name_is_refused) {
  if (!has_linux_io()) GTEST_SKIP() << "this build does not ask about mounts";
  put(path(), "old");
  const Descriptor file(open(path().c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
  const int n = file.get();
  const std::string by_process = formatted("/proc/{}/fd/{}", getpid(), n);
  fs::create_symlink(by_process, path("link"));
  fs::create_symlink(formatted("/dev/../dev/fd/{}", n), path("other"));
  for (const std::string& name :
       {by_process, formatted("/proc/{}/task/{}/fd/{}", getpid(), getpid(), n), formatted("/dev/../dev/fd/{}", n),
        formatted("//proc/self/fd/{}", n), path("link"), path("other"), formatted("{}", n)}) {
    const int result = in_child([&] {
      if (chdir("/proc/self/fd") != 0) return 99;
      const Error error = error_of([&] { write(name, "new"); });
      const bool told = error.message.find("is an open descriptor") != std::string::npos;
      return error.status == Status::open && told ? 0 : 1;
    });
    EXPECT_EQ(result, 0) << name;
    EXPECT_EQ(contents(path()), "old") << name;
  }
}

// An invalid number, or one that no descriptor can have, is the name of a file that cannot be created there.
TEST_P(AtomicFileTest, what_is_no_number_of_a_descriptor) {
  for (const std::string folder_of : {"/dev/fd/", "/proc/self/fd/"}) {
    for (const char* const number :
         {"", "x", "1x", "x1", "-1", "+1", " 1", "1/", "1:", "99999999", "9999999999", "99999999999999999999"}) {
      const Error error = error_of([&] { write(folder_of + number, "bytes"); });
      EXPECT_EQ(error.status, Status::open) << folder_of << number << ": " << error.message;
      EXPECT_NE(error.os_error, EBADF) << folder_of << number;
    }
    const std::string not_open = folder_of + "9999999";
    EXPECT_EQ(error_of([&] { AtomicFile::create(not_open.c_str(), {}); }).os_error, EBADF) << folder_of;
  }
  for (const char* const name : {"/dev/stdoutx", "/dev/stderrx", "/dev/fdx/1"}) {
    EXPECT_NE(error_of([&] { write(path(name + 1), "bytes"); }).os_error, 0) << name;
  }
  EXPECT_NE(error_of([&] { write("/dev/fd/02", ""); }).os_error, 0);  // the kernel knows no such name
}

// ---- limits --------------------------------------------------------------------------------------------------------

TEST_P(AtomicFileTest, a_file_over_the_size_limit_is_an_error_and_no_signal) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit small{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &small);
    if (error_of([&] { write(path(), std::string(1000, 'x')); }).status != Status::ok) _exit(1);
    fs::remove(path());
    _exit(error_of([&] { write(path(), std::string(1001, 'x')); }).os_error);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), EFBIG);
  EXPECT_EQ(names(), Names{});
}

TEST_P(AtomicFileTest, a_stream_over_the_size_limit_is_an_error_and_no_signal) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit small{1000, 1000};
    signal(SIGXFSZ, SIG_DFL);
    dup2(open(path().c_str(), O_WRONLY | O_CREAT, 0600), 1);
    setrlimit(RLIMIT_FSIZE, &small);
    _exit(error_of([&] { write("/dev/stdout", std::string(1001, 'x')); }).os_error);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), EFBIG);
}

TEST_P(AtomicFileTest, a_file_of_more_bytes_than_a_file_can_have_is_too_large) {
  const AtomicFile file = AtomicFile::create(path().c_str(), {});
  for (const std::uint64_t size : {std::uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_EQ(error_of([&] { file.set_size(size); }).os_error, EFBIG) << size;
  }
}

TEST_P(AtomicFileTest, the_folder_may_move_while_the_file_is_written) {
  fs::create_directory(path("a"));
  AtomicFile file = AtomicFile::create(path("a/x").c_str(), {});
  file.write_at(0, "x", 1);
  fs::rename(path("a"), path("b"));
  file.commit();
  EXPECT_EQ(contents(path("b/x")), "x");
}

TEST_P(AtomicFileTest, a_folder_that_is_gone_is_an_error) {
  fs::create_directory(path("sub"));
  AtomicFile file = AtomicFile::create(path("sub/x").c_str(), {});
  fs::remove_all(path("sub"));
  EXPECT_EQ(error_of([&] { file.commit(); }).os_error, ENOENT);
}

}  // namespace
}  // namespace st::io::atomic_file_test
