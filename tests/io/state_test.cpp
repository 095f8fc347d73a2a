// Queries of directories and locks, and names that are taken.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "faults.hpp"
#include "files.hpp"
#include "io/directory.hpp"
#include "io/edited_file.hpp"
#include "io/posix/edit.hpp"
#include "io/posix/file.hpp"
#include "io/posix/system.hpp"
#include "io/posix/temp_file.hpp"
#include "read_faults.hpp"
#include "refuse.hpp"
#include "system.hpp"

namespace st::io::state_test {
namespace {

class StateTest : public FolderTest {
 protected:
  void TearDown() override {
    faults::disarm();
    read_faults::disarm();
    FolderTest::TearDown();
  }
};

TEST_F(StateTest, a_file_is_not_opened_as_a_folder) {
  put(path("file"), "x");
  EXPECT_EQ(error_of([&] { open_directory(path("file")); }).os_error, ENOTDIR);
  EXPECT_EQ(error_of([&] { open_directory(path("absent")); }).os_error, ENOENT);
  EXPECT_EQ(error_of([&] { open_directory(path(".")); }).status, Status::ok);
}

TEST_F(StateTest, the_names_of_a_folder_are_all_but_its_own_in_order) {
  for (const char* const name : {"b", ".b", "..b", "...", "a", "B"}) put(path(name), "x");
  const auto opened = open_directory(path("."));
  faults::arm({});
  const std::vector<std::string> names = opened->names();
  faults::disarm();
  EXPECT_EQ(names, (std::vector<std::string>{"...", "..b", ".b", "B", "a", "b"}));
  for (const std::string& call : faults::calls()) EXPECT_NE(call, "close of none");  // it may be another's by then
}

// ---- locks -----------------------------------------------------------------------------------------------------------

// If a file was opened by path, the lock uses its descriptor. A caller's descriptor is duplicated.
TEST_F(StateTest, the_lock_of_a_file_with_a_path_takes_no_descriptor) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "bytes");
  const Descriptor theirs(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  const RegularFile by_path = RegularFile::open(path().c_str());
  const RegularFile by_descriptor = RegularFile::duplicate(theirs.get());
  const Descriptor editor(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  const auto is_locked = [&] {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return fcntl(editor.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type == F_RDLCK;
  };
  for (const RegularFile* const file : {&by_path, &by_descriptor}) {
    const EditLock lock = EditLock::shared(*file);
    EXPECT_TRUE(lock.held());
    EXPECT_TRUE(is_locked());
  }
  EXPECT_FALSE(is_locked());
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool of_path = EditLock::shared(by_path).held();
  const bool of_descriptor = EditLock::shared(by_descriptor).held();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(of_path);
  EXPECT_FALSE(of_descriptor);
}

// Readers share; an editor is alone.
TEST_F(StateTest, a_lock_keeps_out_whom_it_should) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "bytes");
  const Descriptor one(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  const Descriptor two(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  const auto free_for = [&](short kind) {
    struct flock lock {};
    lock.l_type = kind;
    lock.l_whence = SEEK_SET;
    EXPECT_EQ(fcntl(two.get(), F_OFD_GETLK, &lock), 0);
    return lock.l_type == F_UNLCK;
  };
  {
    const EditLock reading = EditLock::shared(one.get());
    EXPECT_TRUE(reading.held() && free_for(F_RDLCK) && !free_for(F_WRLCK));
    EXPECT_TRUE(EditLock::shared(two.get()).held());
  }
  {
    const EditLock editing = EditLock::exclusive(one.get());
    EXPECT_TRUE(editing.held() && !free_for(F_RDLCK) && !free_for(F_WRLCK));
  }
  EXPECT_TRUE(free_for(F_RDLCK) && free_for(F_WRLCK));
  EXPECT_FALSE(EditLock::shared(-1).held());
  const EditLock header = EditLock::exclusive(one.get());
  EXPECT_EQ(set_byte_lock(two.get(), LockedByte::data, ByteLock::exclusive), 0);
}

// A process that holds only the header's lock is not writing data.
TEST_F(StateTest, a_file_whose_bytes_are_locked_is_being_written) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "bytes");
  const Descriptor editor(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  for (const LockedByte byte : {LockedByte::header, LockedByte::data}) {
    ASSERT_EQ(set_byte_lock(editor.get(), byte, ByteLock::exclusive), 0);
    const bool writes = byte == LockedByte::data;
    EXPECT_EQ(RegularFile::open(path().c_str()).overwritten(), writes ? Overwritten::yes : Overwritten::no);
    ASSERT_EQ(set_byte_lock(editor.get(), byte, ByteLock::none), 0);
  }
}

// At each attempt, another process replaces the opened file.
TEST_F(StateTest, a_name_that_leads_to_another_file_each_time_is_not_locked) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "x");
  read_faults::Plan plan{"fstat"};
  plan.before = [&](std::size_t) {
    put(path("y"), "y");
    fs::rename(path("y"), path());
  };
  read_faults::arm(plan);
  const EditLock lock = EditLock::of_name(AT_FDCWD, path());
  read_faults::disarm();
  EXPECT_FALSE(lock.held());
  EXPECT_EQ(lock.error(), EAGAIN);
}

// ---- leases --------------------------------------------------------------------------------------------------------

// Another process with a lease on the file, like a Samba or NFS server. When asked to release it, the process waits a
// moment and then releases all of it, or only the requested part and nothing later, or nothing.
enum class Giving { all, what_is_asked, nothing };

class LeaseHolder {
 public:
  LeaseHolder(const std::string& path, int kind, Giving giving = Giving::all) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return;
    child_ = fork();
    if (child_ == 0) hold(path, kind, giving, ends[1]);
    ::close(ends[1]);
    char answer = 0;
    has_ = ::read(ends[0], &answer, 1) == 1;
    ::close(ends[0]);
  }
  LeaseHolder(LeaseHolder&&) = delete;
  ~LeaseHolder() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  bool has() const { return has_; }

 private:
  [[noreturn]] static void hold(const std::string& path, int kind, Giving giving, int ready) {
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGIO);
    sigprocmask(SIG_BLOCK, &asked, nullptr);
    const int file = ::open(path.c_str(), (kind == F_WRLCK ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fcntl(file, F_SETLEASE, kind) != 0 || ::write(ready, "x", 1) != 1) _exit(1);
    ::close(ready);
    int signal = 0;
    sigwait(&asked, &signal);
    usleep(20'000);
    if (giving == Giving::all) fcntl(file, F_SETLEASE, F_UNLCK);
    if (giving == Giving::what_is_asked) fcntl(file, F_SETLEASE, fcntl(file, F_GETLEASE));
    for (;;) pause();
  }

  pid_t child_ = 0;
  bool has_ = false;
};

TEST_F(StateTest, a_lease_of_another_process_is_waited_for) {
  const struct {
    const char* name;
    int kind;
    std::function<void(const std::string& path)> run;
  } cases[] = {
      {"opening", F_WRLCK, [](const std::string& at) { RegularFile::open(at.c_str()); }},
      {"reopening by path", F_WRLCK, [](const std::string& at) { EditedFile::open(at.c_str()); }},
      {"reopening for writing", F_RDLCK, [](const std::string& at) { EditedFile::open(at.c_str()); }},
      {"saving", F_WRLCK, [](const std::string& at) { write(at, "new"); }},
      {"locking the name", F_WRLCK,
       [](const std::string& at) {
         const Descriptor inside(::open(fs::path(at).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
         const EditLock lock = EditLock::of_name(inside.get(), fs::path(at).filename().string());
         EXPECT_EQ(lock.held(), has_linux_io());
       }},
  };
  for (const auto& one : cases) {  // clang 14 does not capture structured bindings
    SCOPED_TRACE(one.name);
    put(path(), "old");
    const LeaseHolder holder(path(), one.kind);
    if (!holder.has()) GTEST_SKIP() << "no leases on this filesystem, or not for this user";
    EXPECT_EQ(error_of([&] { one.run(path()); }).message, "");
    EXPECT_EQ(contents(path()), std::string(one.name) == "saving" ? "new" : "old");
  }
}

TEST_F(StateTest, a_lease_is_not_waited_for_without_patience) {
  put(path(), "old");
  const LeaseHolder holder(path(), F_WRLCK, Giving::nothing);
  if (!holder.has()) GTEST_SKIP() << "no leases on this filesystem, or not for this user";
  EXPECT_FALSE(open_regular(AT_FDCWD, path().c_str(), O_RDONLY, std::chrono::seconds(0)));
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(StateTest, an_opening_that_waits_for_a_lease_sleeps_between_tries) {
  put(path(), "x");
  const auto begin = std::chrono::steady_clock::now();
  read_faults::arm({"open", 0, 10, EAGAIN});
  EXPECT_TRUE(open_regular(AT_FDCWD, path().c_str(), O_RDONLY));
  read_faults::disarm();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
}

// The kernel would break the lease after 45 seconds.
TEST_F(StateTest, a_save_waits_two_seconds_for_a_lease_and_goes_ahead) {
  put(path(), "old");
  fs::create_hard_link(path(), path("kept"));
  const LeaseHolder holder(path(), F_WRLCK, Giving::nothing);
  if (!holder.has()) GTEST_SKIP() << "no leases on this filesystem, or not for this user";
  EXPECT_EQ(error_of([&] { write(path(), "new"); }).message, "");
  EXPECT_EQ(contents(path()), "new");
  const Descriptor old(::open(path("kept").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  EXPECT_FALSE(old);  // so the holder has its lease still
}

// Only opening shows then whether the file is writable, and the holder of the lease delays opening.
TEST_F(StateTest, a_sandbox_does_not_stop_a_file_under_a_lease_from_being_replaced) {
  put(path(), "old");
  const LeaseHolder holder(path(), F_WRLCK, Giving::nothing);
  if (!holder.has()) GTEST_SKIP() << "no leases on this filesystem, or not for this user";
  const int result = in_child([&] {
    if (!refuse({SYS_faccessat, SYS_faccessat2}, EPERM)) return 255;
    return error_of([&] { AtomicFile::create(path().c_str(), {}); }).os_error;
  });
  if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(result, 0);
}

// If an edit opened its file for reading first, it would wait for the lease twice, up to 45 seconds each time.
TEST_F(StateTest, an_edit_asks_for_a_lease_once) {
  put(path(), "old");
  const LeaseHolder holder(path(), F_WRLCK, Giving::what_is_asked);
  if (!holder.has()) GTEST_SKIP() << "no leases on this filesystem, or not for this user";
  const int result = in_child([&] {
    alarm(20);  // the second time it is not given up
    return error_of([&] { EditedFile::open(path().c_str()); }).message.empty() ? 0 : 1;
  });
  EXPECT_EQ(result, 0);
}

// ---- threads with descriptors of their own ---------------------------------------------------------------------------

// /proc/self/fd shows the descriptors of the main thread, whose numbers refer to other files.
TEST_F(StateTest, a_thread_with_a_table_of_descriptors_of_its_own_meets_no_other_file) {
  put(path("decoy"), "decoy");
  put(path("old"), "old");
  put(path("read"), "read");
  fs::create_directory(path("decoys"));
  put(path("decoys/old"), "decoy");
  setxattr(path("decoys/old").c_str(), "user.note", "decoy", 5, 0);  // if the filesystem has attributes
  std::vector<Descriptor> decoys;                                    // of the main thread
  for (int i = 0; i < 20; ++i) {
    const std::string leads_to = i % 2 == 0 ? path("decoys") : path("decoy");
    decoys.emplace_back(::open(leads_to.c_str(), O_RDONLY | O_CLOEXEC));
  }
  bool is_alone = false;
  std::string problem;
  std::string bytes(4, ' ');
  std::thread other([&] {
    is_alone = unshare(CLONE_FILES) == 0;
    if (!is_alone) return;
    for (const Descriptor& decoy : decoys) ::close(decoy.get());  // the numbers that the library gets here
    problem = error_of([&] {
                write(path("new"), "new");
                write(path("old"), "newer");
                const RegularFile file = RegularFile::duplicate(::open(path("read").c_str(), O_RDONLY | O_CLOEXEC));
                if (has_linux_io()) file.reopen(0);
                const Descriptor again = RegularFile::open(path("read").c_str()).reopen(0);
                if (pread(again.get(), bytes.data(), bytes.size(), 0) < 0) bytes = "?";
              }).message;
  });
  other.join();
  if (!is_alone) GTEST_SKIP() << "threads share their descriptors here";
  EXPECT_EQ(problem, "");
  EXPECT_EQ(bytes, "read");
  EXPECT_EQ(contents(path("new")), "new");
  EXPECT_EQ(contents(path("old")), "newer");
  EXPECT_EQ(contents(path("decoy")), "decoy");
  EXPECT_LT(getxattr(path("old").c_str(), "user.note", nullptr, 0), 0);
  struct stat status {};
  ASSERT_EQ(stat(path("decoy").c_str(), &status), 0);
  EXPECT_EQ(status.st_nlink, 1U);
}

// ---- what vanishes between two looks ---------------------------------------------------------------------------------

// A path that does not exist for a moment, as when a file is replaced by two renames.
TEST_F(StateTest, an_edit_begins_again_when_its_file_is_gone_for_a_moment) {
  put(path(), "bytes");
  std::size_t looks = 0;
  {
    read_faults::arm({"stat", SIZE_MAX, 0, 0});
    EXPECT_EQ(error_of([&] { EditedFile::open(path().c_str()); }).message, "");
    looks = read_faults::calls();
  }
  ASSERT_GE(looks, 2U);
  for (std::size_t gone = 1; gone < looks; ++gone) {  // the first one is for the caller's path
    read_faults::arm({"stat", gone, 2, ENOENT});
    EXPECT_EQ(error_of([&] { EditedFile::open(path().c_str()); }).message, "") << gone;
    read_faults::arm({"stat", gone, 1, EACCES});
    EXPECT_EQ(error_of([&] { EditedFile::open(path().c_str()); }).os_error, EACCES) << gone;
  }
  for (const int error : {ENOENT, ELOOP}) {
    read_faults::arm({"open", 1, 1, error});  // of the file; the first one is of its directory
    EXPECT_EQ(error_of([&] { EditedFile::open(path().c_str()); }).message, "") << error;
  }
  read_faults::arm({"stat", 0, SIZE_MAX, ENOENT});
  EXPECT_EQ(error_of([&] { EditedFile::open(path().c_str()); }).os_error, ENOENT);
}

// Before each look, another process saves to the path.
TEST_F(StateTest, an_edit_opens_the_file_that_has_the_name_at_last) {
  std::size_t looks = 0;
  for (bool looked = true; looked; ++looks) {
    SCOPED_TRACE(looks);
    put(path(), "old");
    put(path("saved"), "saved");
    read_faults::Plan plan;
    plan.call = "stat";
    plan.before = [&](std::size_t number) {
      if (number == looks) fs::rename(path("saved"), path());
    };
    read_faults::arm(plan);
    const EditedFile edited = EditedFile::open(path().c_str());
    read_faults::disarm();
    looked = read_faults::calls() > looks;
    struct stat named {};
    ASSERT_EQ(stat(path().c_str(), &named), 0);
    EXPECT_TRUE(edited.seen().same_file(identity_of(named)));
  }
  EXPECT_GT(looks, 2U);
}

// If the system cannot report holes, all bytes are copied.
TEST_F(StateTest, a_failed_look_for_bytes_finds_no_hole) {
  put(path(), "bytes");
  const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<long> seeks{SYS_lseek};
#if defined(SYS__llseek)
  seeks.push_back(SYS__llseek);
#endif
  const int begin = in_child([&] {
    if (!refuse(seeks, EINVAL)) return 255;
    return static_cast<int>(stored_bytes(file.get(), 1, 5).begin);
  });
  if (begin == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(begin, 1);
}

TEST_F(StateTest, bytes_behind_a_range_are_not_in_it) {
  put(path(), "");
  ASSERT_EQ(truncate(path().c_str(), 1 << 20), 0);
  const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(pwrite(file.get(), "x", 1, 1 << 20), 1);
  const Extent found = stored_bytes(file.get(), 0, 100);
  EXPECT_TRUE(found.begin == 0 || found.begin == 100) << found.begin;  // not every filesystem reports holes
  EXPECT_EQ(found.end, 100U);
}

// The caller then copies the bytes itself.
TEST_F(StateTest, a_copy_that_is_always_interrupted_is_given_up) {
  put(path(), "x");
  const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  const int copied = in_child([&] {
    if (!refuse({SYS_copy_file_range}, EINTR)) return 255;
    alarm(60);
    return static_cast<int>(copy_in_kernel(file.get(), 0, file.get(), 1, 1));
  });
  if (copied == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(copied, 0);
}

TEST_F(StateTest, an_edit_does_not_write_to_a_file_that_has_changed_since) {
  put(path(), "old");
  EditedFile edited = EditedFile::open(path().c_str());
  put(path(), "newer");
  EXPECT_EQ(edited.patch(0, "edited", 6, false),
            has_linux_io() ? EditedFile::Patch::changed : EditedFile::Patch::refused);
  EXPECT_EQ(contents(path()), "newer");
}

// Right before the file is opened, another user puts their own in its place.
TEST_F(StateTest, an_edit_in_a_sticky_folder_opens_no_file_that_another_user_puts_there) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  put(path(), "old");
  put(path("theirs"), "theirs");
  ASSERT_EQ(chown(path("theirs").c_str(), 1001, 1001), 0);
  static std::string from;
  static std::string to;
  from = path("theirs");
  to = path();
  faults::Plan plan;
  plan.only_refusals = true;
  plan.before_open = [](const char* name, int flags) {
    if ((flags & O_ACCMODE) == O_RDWR && fs::path(name).filename() == "x" && fs::exists(from)) fs::rename(from, to);
  };
  faults::arm(plan);
  const Error error = error_of([&] { EditedFile::open(path().c_str()); });
  faults::disarm();
  EXPECT_FALSE(fs::exists(from));
  EXPECT_EQ(error.os_error, EACCES) << error.message;
}

// ---- names of new files ----------------------------------------------------------------------------------------------

std::string only_name(const std::string& folder) {
  std::string found;
  for (const auto& entry : fs::directory_iterator(folder)) found += entry.path().filename().string();
  return found;
}

// Each call of this kind fails this many times, because the name is taken.
TEST_F(StateTest, another_random_name_is_tried_when_one_is_taken) {
  const Descriptor inside(::open(path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const bool linked : {false, true}) {
    SCOPED_TRACE(linked);
    for (const int error : {EEXIST, EIO}) {
      const Descriptor nameless(linked ? ::open(path(".").c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1);
      if (linked && (!nameless || !has_linux_io())) GTEST_SKIP() << "there are no nameless files";
      faults::Plan refusing;
      // The first call takes the lock, or closes the device for random numbers.
      refusing.at = linked || !has_linux_io() ? 1 : 0;
      refusing.action = faults::Action::fail;
      refusing.error = error;
      faults::arm(refusing);
      std::string name;
      bool made = false;
      if (linked) {
        name = link_temp_file(nameless.get(), inside.get(), "x");
        made = !name.empty();
      } else {
        made = static_cast<bool>(create_temp_file(inside.get(), "x", 0600, name));
      }
      const int os_error = errno;
      faults::disarm();
      EXPECT_EQ(made, error == EEXIST);
      if (!made) {
        EXPECT_EQ(os_error, error);
      }
      EXPECT_EQ(only_name(folder), made ? name : "");
      if (made) fs::remove(path(name));
    }
  }
}

TEST_F(StateTest, a_new_file_that_cannot_be_looked_at_is_an_error_at_once) {
  const Descriptor inside(::open(path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::string name;
  read_faults::arm({"stat", 0, 1, EIO});
  EXPECT_FALSE(create_temp_file(inside.get(), "x", 0600, name));
  const int error = errno;
  read_faults::disarm();
  EXPECT_EQ(error, EIO);
  EXPECT_EQ(only_name(folder), "");
}

// Another writer takes the name of a stale file after the lock.
TEST_F(StateTest, a_file_that_takes_the_name_of_a_stale_one_is_not_removed) {
  static std::string stale;
  stale = path(".x.st-new-0123456789abcdef");
  const Descriptor inside(::open(path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  put(stale, "stale");
  read_faults::Plan taking{"stat"};
  taking.before = [&](std::size_t number) {
    if (number != 1) return;  // the second look at the name
    put(path("new"), "in use");
    fs::rename(path("new"), stale);
  };
  read_faults::arm(taking);
  sweep_temp_files(inside.get(), "x", geteuid());
  read_faults::disarm();
  EXPECT_EQ(contents(stale), "in use");
  // Or before it is opened. Opening a FIFO could block forever.
  const int result = in_child([&] {
    alarm(30);
    faults::Plan plan;
    plan.only_refusals = true;
    plan.before_open = [](const char* name, int) {
      if (stale.ends_with(name) && fs::remove(stale)) static_cast<void>(mkfifo(stale.c_str(), 0600));
    };
    faults::arm(plan);
    sweep_temp_files(inside.get(), "x", geteuid());
    return 0;
  });
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(fs::is_fifo(stale));
}

// Another process is always faster.
TEST_F(StateTest, names_that_are_always_taken_are_an_error_in_the_end) {
  const Descriptor inside(::open(path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  static fs::path wanted;
  static int left;
  wanted = folder;
  faults::Plan plan;
  plan.only_refusals = true;
  plan.before_open = [](const char* name, int flags) {
    if ((flags & O_CREAT) != 0 && left-- > 0) fs::create_symlink("nowhere", wanted / name);
  };
  for (const int taken : {1, 20, 1000}) {
    left = taken;
    faults::arm(plan);
    std::string name;
    const Descriptor made = create_temp_file(inside.get(), "x", 0600, name);
    const int os_error = errno;
    faults::disarm();
    EXPECT_EQ(static_cast<bool>(made), taken < 1000);
    if (!made) {
      EXPECT_EQ(os_error, EEXIST);
    }
    if (made) {
      EXPECT_TRUE(fs::is_regular_file(path(name)));
    }
  }
}

}  // namespace
}  // namespace st::io::state_test
