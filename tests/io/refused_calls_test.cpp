// A system that refuses or interrupts calls or runs out of resources, and a target that is replaced during a save.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../base/sanitizer.hpp"
#include "base/text.hpp"
#include "faults.hpp"
#include "files.hpp"
#include "io/edited_file.hpp"
#include "io/posix/edit.hpp"
#include "io/posix/file_source.hpp"
#include "io/posix/system.hpp"
#include "read_faults.hpp"
#include "refuse.hpp"
#include "system.hpp"

namespace st::io::refused_calls_test {
namespace {

class RefusedCallsTest : public FolderTest {
 protected:
  void TearDown() override {
    faults::disarm();
    FolderTest::TearDown();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
};

TEST_F(RefusedCallsTest, a_sandbox_does_not_stop_files_from_being_replaced) {
  const struct {
    const char* name;
    std::vector<long> calls;
    int error;
    mode_t mode;  // of the file with mode 0640
  } cases[] = {
      {"asking for rights", {SYS_faccessat, SYS_faccessat2}, EPERM, 0640},
      {"asking for rights, old kernel", {SYS_faccessat, SYS_faccessat2}, ENOSYS, 0640},
      {"links", {SYS_linkat}, EPERM, 0640},
      {"links, by a security module", {SYS_linkat}, EACCES, 0640},
      {"locks", {SYS_flock}, EPERM, 0640},
      {"asking about mounts", {SYS_statx}, EPERM, 0640},
      {"attributes",
       {SYS_lgetxattr, SYS_fgetxattr, SYS_llistxattr, SYS_flistxattr, SYS_fsetxattr},
       EPERM,
       has_linux_io() ? 0600U : 0640U},
      {"renameat2", {SYS_renameat2}, EPERM, 0640},
      {"links and renameat2", {SYS_linkat, SYS_renameat2}, EPERM, 0640},
      {"copies in the kernel and space beforehand", {SYS_copy_file_range, SYS_fallocate}, EPERM, 0640},
  };
  for (const auto& test : cases) {
    for (const char* const how : {"replacing", "new", "only new"}) {
      SCOPED_TRACE(std::string(test.name) + ", " + how);
      const bool old = std::string(how) == "replacing";
      // Without renameat2() and links, no call can take a name only if it is free.
      const bool no_renameat2 = !has_linux_io() || test.calls.back() == SYS_renameat2;
      if (no_renameat2 && std::string(how) == "only new" && test.calls.front() == SYS_linkat) continue;
      // stat() makes this call there, and no file can be checked without it.
      if (sizeof(long) == 4 && test.calls.front() == SYS_statx) continue;
      fs::remove(path());
      if (old) put(path(), "old");
      ASSERT_TRUE(!old || chmod(path().c_str(), 0640) == 0);
      const std::string text(100'000, 'n');
      const CreateOptions options{std::string(how) != "only new", true};
      const int result = in_child([&] {
        if (!refuse(test.calls, test.error)) return 255;
        const Error error = error_of([&] { write(path(), text, options); });
        if (error.status != Status::ok) fprintf(stderr, "%s\n", error.message.c_str());
        return error.os_error;
      });
      if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
      EXPECT_EQ(result, 0);
      EXPECT_TRUE(contents(path()) == text);
      EXPECT_EQ(mode_of(path()), old ? test.mode : 0644U);
      EXPECT_EQ(files(), 1U);
    }
  }
}

// Sandboxes refuse the call that reads a process's memory, and emulators lack it.
TEST_F(RefusedCallsTest, mapped_pages_are_copied_all_the_same) {
  const std::string text(100'000, 't');
  void* const gone = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  for (const int error : {EPERM, ENOSYS}) {
    const int result = in_child([&] {
      if (!refuse({SYS_process_vm_readv}, error)) return 255;
      std::string copy(text.size(), '-');
      const bool copied = copy_from_pages(text.data(), copy.data(), copy.size()) && copy == std::string(100'000, 't');
      const bool invented = copy_from_pages(gone, copy.data(), 1);
      const rlimit none{0, 0};  // and so no pipe
      const bool claimed = setrlimit(RLIMIT_NOFILE, &none) != 0 || copy_from_pages(text.data(), copy.data(), 1);
      return (copied ? 0 : 1) + (invented ? 2 : 0) + (claimed ? 4 : 0);
    });
    if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
    EXPECT_EQ(result, 0) << error;
  }
  munmap(gone, 4096);
}

// A blocking pipe could block forever.
TEST_F(RefusedCallsTest, mapped_pages_are_not_copied_through_a_pipe_that_stays_blocking) {
  std::vector<long> calls = fcntl_calls();
  calls.push_back(SYS_process_vm_readv);
  const int result = in_child([&] {
    if (!refuse(calls, EPERM)) return 255;
    char copy = 0;
    return copy_from_pages("x", &copy, 1) ? 1 : 0;
  });
  if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(result, 0);
}

// The pipe never gets the number of a closed standard stream; otherwise it would receive what the host prints.
TEST_F(RefusedCallsTest, mapped_pages_are_copied_without_what_the_host_prints) {
  const std::string text(5'000, 't');
  const int result = in_child([&] {
    if (!refuse({SYS_process_vm_readv}, EPERM)) return 255;
    for (const int stream : {0, 1, 2}) close(stream);
    alarm(30);
    std::atomic<bool> stop = false;
    std::thread host([&] {
      while (!stop) static_cast<void>(::write(1, "HOST", 4));
    });
    int copied = 0;
    std::string copy(text.size(), '-');
    for (int i = 0; i < 20'000; ++i) {
      copied += copy_from_pages(text.data(), copy.data(), copy.size()) && copy == text ? 1 : 0;
    }
    stop = true;
    host.join();
    return copied == 20'000 ? 0 : 1;
  });
  if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(result, 0);
}

// Like the pages after the end of a truncated file.
TEST_F(RefusedCallsTest, pages_that_are_gone_behind_others_are_not_copied) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::string copy(2 * page, '-');
  EXPECT_TRUE(copy_from_pages(pages, copy.data(), copy.size()));
  ASSERT_EQ(mprotect(static_cast<char*>(pages) + page, page, PROT_NONE), 0);
  EXPECT_FALSE(copy_from_pages(pages, copy.data(), copy.size()));
  munmap(pages, 2 * page);
}

// If linking is not permitted, the bytes are copied instead. A disk error is still an error.
TEST_F(RefusedCallsTest, a_refused_link_is_no_error_of_the_disk) {
  if (!has_linux_io()) GTEST_SKIP() << "no nameless files in this build";
  for (const int error : {EPERM, EACCES, ENOSYS, ENOENT, EOPNOTSUPP, EINVAL, EXDEV, ELOOP, EIO, ENOSPC, EDQUOT}) {
    fs::remove(path());
    const int result = in_child([&] {
      if (!refuse({SYS_linkat}, error)) return 255;
      return error_of([&] { write(path(), "new"); }).os_error;
    });
    if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
    const bool of_disk = error == EIO || error == ENOSPC || error == EDQUOT;
    EXPECT_EQ(result, of_disk ? error : 0);
    EXPECT_EQ(contents(path()), of_disk ? "" : "new") << error;
  }
}

void refuse_nameless_files() {
  faults::Plan kernel;
  kernel.no_nameless_files = true;
  kernel.only_refusals = true;
  faults::arm(kernel);
}

// Then a second link gives the file its name, and the first link is removed.
TEST_F(RefusedCallsTest, a_new_file_gets_its_name_without_nameless_files_and_renameat2) {
  for (const int error : {EINVAL, ENOSYS, EPERM}) {
    for (const bool occupied : {false, true}) {
      SCOPED_TRACE(error);
      fs::remove(path());
      const int result = in_child([&] {
        refuse_nameless_files();
        if (!refuse({SYS_renameat2}, error)) return 255;
        AtomicFile file = AtomicFile::create(path().c_str(), {false, false});
        file.write_at(0, "new", 3);
        if (occupied) put(path(), "theirs");
        return error_of([&] { file.commit(); }).os_error;
      });
      if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
      EXPECT_EQ(result, occupied ? EEXIST : 0);
      EXPECT_EQ(contents(path()), occupied ? "theirs" : "new");
      EXPECT_EQ(files(), 1U);
    }
  }
}

TEST_F(RefusedCallsTest, a_file_with_a_name_is_written_where_there_are_no_locks) {
  for (const auto& [refusal, told] : {std::pair{ENOLCK, 0}, {EWOULDBLOCK, EEXIST}}) {  // and where others hold them
    const int result = in_child([&, refusal = refusal] {
      refuse_nameless_files();
      if (!refuse({SYS_flock}, refusal)) return 255;
      return error_of([&] { write(path(), "new"); }).os_error;
    });
    if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
    EXPECT_EQ(result, told);
    EXPECT_EQ(files(), 1U);
  }
}

// No call could give it a name later.
TEST_F(RefusedCallsTest, a_file_has_a_name_from_the_beginning_where_proc_is_out_of_reach) {
  std::vector<long> calls{SYS_faccessat};
#if defined(SYS_access)
  calls.push_back(SYS_access);
#endif
  const int result = in_child([&] {
    if (!refuse(calls, EACCES)) return 255;
    const AtomicFile file = AtomicFile::create(path().c_str(), {});
    return static_cast<int>(files());
  });
  if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(result, 1);
}

// If the disk cannot be synced, only a synced save fails: of a regular file, and of a stream.
TEST_F(RefusedCallsTest, only_a_synced_save_syncs) {
  for (const char* const to : {"x", "/dev/fd/17"}) {
    for (const int error : {EIO, EINVAL, EROFS, ENOTSUP}) {  // all but the first: pipes and terminals
      for (const bool sync : {false, true}) {
        put(path("through"), "");
        const int result = in_child([&] {
          dup2(open(path("through").c_str(), O_WRONLY), 17);
          if (!refuse({SYS_fsync, SYS_fdatasync}, error)) return 255;
          return error_of([&] { write(*to == '/' ? to : path(to), "new", {true, sync}); }).os_error;
        });
        if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
        EXPECT_EQ(result, sync && (error == EIO || *to != '/') ? error : 0) << to;
      }
    }
  }
}

// A save ends with setting the mode and with closing a duplicate that reports errors.
TEST_F(RefusedCallsTest, what_ends_a_save_is_tried_at_its_beginning) {
  const std::vector<long> duplicating = fcntl_calls();
  put(path(), "old");
  for (const std::vector<long>& calls : {std::vector<long>{SYS_fchmod}, duplicating}) {
    const int result = in_child([&] {
      if (!refuse(calls, EPERM)) return 255;
      return error_of([&] { AtomicFile::create(path().c_str(), {}); }).os_error;
    });
    if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
    EXPECT_EQ(result, EPERM);
  }
}

// Only a synced save opens the directory for reading.
TEST_F(RefusedCallsTest, a_folder_that_may_not_be_listed_takes_new_files) {
  if (!has_linux_io()) GTEST_SKIP() << "no way to look into such a folder in this build";
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  ASSERT_EQ(chmod(folder.c_str(), 0333), 0);
  const auto written = [&](bool sync) {
    return as_user(12345, 12345, [&] { return error_of([&] { write(path(), "new", {true, sync}); }).os_error; });
  };
  for (int times = 0; times < 2; ++times) EXPECT_EQ(written(false), 0);
  EXPECT_EQ(contents(path()), "new");
  fs::remove(path());
  EXPECT_EQ(written(true), EACCES);
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(RefusedCallsTest, what_cannot_be_locked_is_not_said_to_be) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "x");
  const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  const std::vector<long> calls = fcntl_calls();
  const int held = in_child([&] {
    const bool before = EditLock::exclusive(file.get()).held();
    const FileSource source(RegularFile::duplicate(file.get()), 0, 1);
    if (!refuse(calls, ENOLCK)) return 255;
    return before && !EditLock::exclusive(file.get()).held() && source.lock_out_edits() == nullptr ? 0 : 1;
  });
  if (held == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(held, 0);
  // An interrupted attempt is repeated, for two seconds.
  const int repeated = in_child([&] {
    if (!refuse_file_locks(EINTR)) return 255;
    const auto begun = std::chrono::steady_clock::now();
    const int error = EditLock::exclusive(file.get()).error();
    return error == EINTR && std::chrono::steady_clock::now() - begun >= std::chrono::seconds(2) ? 0 : 1;
  });
  EXPECT_EQ(repeated, 0);
}

// An edit without a lock could undo a save between its last check and its rename.
TEST_F(RefusedCallsTest, an_edit_without_its_lock_replaces_nothing) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  const std::vector<long> locks = fcntl_calls();
  // 0: no descriptor is free, which the edit does not need. EINTR: every other open is interrupted.
  for (const int refusal : {0, EINTR, ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL, ENOMEM, EPERM}) {
    SCOPED_TRACE(refusal);
    if (refusal == 0 && kUnderSanitizer) continue;  // UBSan checks each object through a pipe, which needs descriptors
    put(path(), "old");
    const int result = in_child([&] {
      const EditedFile edited = EditedFile::open(path().c_str());
      AtomicFile file = AtomicFile::create(path().c_str(), {});
      file.write_at(0, "edited", 6);
      faults::Plan kernel;
      kernel.interrupted_opens = refusal == EINTR;
      kernel.only_refusals = true;
      faults::arm(kernel);
      const rlimit none{0, 0};
      if (refusal == 0 && setrlimit(RLIMIT_NOFILE, &none) != 0) return 254;
      if (refusal != 0 && refusal != EINTR && !refuse(locks, refusal)) return 255;
      const Error error = error_of([&] { file.commit_over(edited); });
      return error.status == Status::state ? 253 : error.os_error;
    });
    if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
    const int told = refusal == ENOMEM || refusal == EPERM ? refusal : 0;
    EXPECT_EQ(result, told);
    EXPECT_EQ(contents(path()), told == 0 ? "edited" : "old");
    EXPECT_EQ(files(), 1U);
  }
}

TEST_F(RefusedCallsTest, a_file_that_cannot_be_locked_is_not_edited) {
  const std::vector<long> byte_locks = fcntl_calls();
  for (const int refusal : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL, ENOMEM, EIO, EACCES}) {
    SCOPED_TRACE(refusal);
    const bool no_locks = refusal == ENOLCK || refusal == ENOSYS || refusal == EOPNOTSUPP || refusal == EINVAL;
    put(path(), "old");
    const int opened = in_child([&] {
      if (!refuse({SYS_flock}, refusal)) return 255;
      return error_of([&] { EditedFile::open(path().c_str()); }).os_error;
    });
    if (opened == 255) GTEST_SKIP() << "this system has no filters of calls";
    EXPECT_EQ(opened, no_locks ? 0 : refusal);
    if (!has_linux_io()) continue;
    const int patched = in_child([&] {
      EditedFile file = EditedFile::open(path().c_str());
      if (!refuse(byte_locks, refusal)) return 255;
      const Error error = error_of([&] {
        if (file.patch(0, "new", 3, false) != EditedFile::Patch::refused) throw Error{Status::ok, 99, 0, ""};
      });
      return error.os_error;
    });
    EXPECT_EQ(patched, no_locks ? 0 : refusal == EACCES ? EAGAIN : refusal);  // EACCES: another process holds it
    EXPECT_EQ(contents(path()), "old");
  }
  const int interrupted = in_child([&] {
    faults::Plan once;
    once.at = 0;
    once.action = faults::Action::fail;
    once.error = EINTR;
    faults::arm(once);
    return error_of([&] { EditedFile::open(path().c_str()); }).os_error;
  });
  EXPECT_EQ(interrupted, 0);
}

// For two seconds, in place and with a new file. Any process that may read the file can do that.
TEST_F(RefusedCallsTest, a_file_that_another_process_locks_is_not_edited) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "old");
  EditedFile edited = EditedFile::open(path().c_str());
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.write_at(0, "edited", 6);
  const Descriptor theirs(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(set_byte_lock(theirs.get(), LockedByte::header, ByteLock::shared), 0);
  Error replacing{Status::ok, 0, 0, ""};
  std::thread other([&] { replacing = error_of([&] { file.commit_over(edited); }); });
  const Error patching = error_of([&] { edited.patch(0, "new", 3, false); });
  other.join();
  for (const Error& error : {patching, replacing}) {
    EXPECT_EQ(error.status, Status::state);
    EXPECT_EQ(error.os_error, EAGAIN);
    EXPECT_NE(error.message.find("is locked by another process"), std::string::npos) << error.message;
  }
  EXPECT_EQ(contents(path()), "old");
}

// Otherwise any process that may read the file could block us forever.
TEST_F(RefusedCallsTest, a_lock_that_another_holds_is_refused_at_once) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  put(path(), "x");
  const Descriptor theirs(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  const Descriptor ours(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(set_byte_lock(theirs.get(), LockedByte::header, ByteLock::exclusive), 0);
  for (const ByteLock lock : {ByteLock::shared, ByteLock::exclusive}) {
    const int result = in_child([&] {
      alarm(5);
      return set_byte_lock(ours.get(), LockedByte::header, lock);
    });
    EXPECT_TRUE(result == EAGAIN || result == EACCES) << result;
  }
}

TEST_F(RefusedCallsTest, an_interrupted_open_is_tried_again) {
  for (const bool nameless : {true, false}) {
    faults::Plan kernel;
    kernel.no_nameless_files = !nameless;
    kernel.interrupted_opens = true;
    kernel.only_refusals = true;
    for (const char* const target : {"new", "new", "/dev/null"}) {
      const std::string at = target[0] == '/' ? target : path(target);
      faults::arm(kernel);
      const Error error = error_of([&] { write(at, "bytes", {true, true}); });
      faults::disarm();
      EXPECT_EQ(error.message, "");
    }
    EXPECT_EQ(contents(path("new")), "bytes");
    EXPECT_EQ(files(), 1U);
  }
}

TEST_F(RefusedCallsTest, space_is_not_asked_for_without_end) {
  if (!has_linux_io()) GTEST_SKIP() << "this build does not allocate space in advance";
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  faults::Plan kernel;
  kernel.interruptions = 1000;
  kernel.only_refusals = true;
  faults::arm(kernel);
  file.reserve(100);
  EXPECT_GT(faults::interruptions_left(), 900U);
}

// An interruption is not a result: the disk's result follows.
TEST_F(RefusedCallsTest, a_full_disk_is_known_though_the_question_was_interrupted) {
  if (!has_linux_io()) GTEST_SKIP() << "this build does not allocate space in advance";
  const AtomicFile file = AtomicFile::create(path().c_str(), {});
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EIO, EPERM, EOPNOTSUPP, ENOSYS}) {
    for (const std::size_t interruptions : {0U, 1U, 9U}) {
      faults::Plan kernel;
      kernel.interruptions = interruptions;
      kernel.at = 0;
      kernel.action = faults::Action::fail;
      kernel.error = error;
      faults::arm(kernel);
      const Error given = error_of([&] { file.reserve(100); });
      faults::disarm();
      const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
      EXPECT_EQ(given.os_error, full ? error : 0) << error << ' ' << interruptions;
      EXPECT_EQ(faults::calls().size(), 1U) << error << ' ' << interruptions;
    }
  }
}

TEST_F(RefusedCallsTest, a_file_is_finished_without_a_free_descriptor) {
  for (const bool sync : {false, true}) {
    for (const char* const name : {"new", "old"}) {
      SCOPED_TRACE(name);
      if (std::string(name) == "old") put(path(name), "old");
      const std::string before = contents(path(name));
      const bool replaces = fs::exists(path(name));  // which needs a descriptor for the lock of the old file
      const int result = in_child([&] {
        AtomicFile file = AtomicFile::create(path(name).c_str(), {true, sync});
        file.write_at(0, "bytes", 5);
        const rlimit none{0, 0};
        if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 99;
        return error_of([&] { file.commit(); }).os_error;
      });
      EXPECT_EQ(result, replaces ? EMFILE : 0);
      EXPECT_EQ(contents(path(name)), replaces ? before : "bytes");
    }
  }
  EXPECT_EQ(files(), 2U);
}

// A save is not lost to an edit because memory was short.
TEST_F(RefusedCallsTest, a_save_without_memory_or_a_descriptor_for_its_lock_fails) {
  for (const int lack : {ENOMEM, EMFILE, ENFILE}) {
    put(path(), "old");
    bool failed = true;
    for (std::size_t at = 0; failed; ++at) {
      SCOPED_TRACE(at);
      AtomicFile file = AtomicFile::create(path().c_str(), {});
      file.write_at(0, "new", 3);
      read_faults::arm({"open", at, 1, lack});
      const Error error = error_of([&] { file.commit(); });
      read_faults::disarm();
      failed = read_faults::calls() > at;
      EXPECT_EQ(error.os_error, failed ? lack : 0) << error.message;
      EXPECT_EQ(contents(path()), failed ? "old" : "new");
    }
  }
}

// A save that may replace only one file needs the lock between its last check and the rename.
TEST_F(RefusedCallsTest, only_a_save_over_one_file_fails_without_a_lock) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  for (const bool only_unchanged : {false, true}) {
    put(path(), "old");
    const int result = in_child([&] {
      AtomicFile file = AtomicFile::create(path().c_str(), {.only_unchanged = only_unchanged});
      if (!refuse_file_locks(EPERM)) return 255;
      return error_of([&] { file.commit(); }).os_error;
    });
    if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
    EXPECT_EQ(result, only_unchanged ? EPERM : 0);
  }
}

// The message must not be that the file cannot be locked.
TEST_F(RefusedCallsTest, a_save_over_one_file_says_that_a_read_only_file_took_its_place) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  const int status = as_user(12345, 12345, [&] {
    put(path(), "old");
    AtomicFile file = AtomicFile::create(path().c_str(), {.only_unchanged = true});
    fs::remove(path());
    put(path(), "theirs");
    fs::permissions(path(), fs::perms{0400});
    return static_cast<int>(error_of([&] { file.commit(); }).status);
  });
  EXPECT_EQ(status, static_cast<int>(Status::state));
}

// Another process removes the old file between two looks at it.
TEST_F(RefusedCallsTest, a_file_that_is_removed_meanwhile_is_saved) {
  for (const char* const call : {"stat", "fstat"}) {
    std::size_t looks = 0;
    for (bool looked = true; looked; ++looks) {
      SCOPED_TRACE(formatted("{} {}", call, looks));
      put(path(), "old");
      read_faults::Plan plan;
      plan.call = call;
      plan.before = [&](std::size_t number) {
        if (number == looks) unlink(path().c_str());
      };
      read_faults::arm(plan);
      const Error error = error_of([&] {
        AtomicFile file = AtomicFile::create(path().c_str(), {});
        file.write_at(0, "new", 3);
        file.commit();
      });
      read_faults::disarm();
      looked = read_faults::calls() > looks;
      // The file may be the new one by then.
      const bool is_new = error.status == Status::ok && looked && !fs::exists(path());
      EXPECT_EQ(error.message, "");
      EXPECT_TRUE(is_new || contents(path()) == "new");
    }
    EXPECT_GT(looks, 2U);
  }
}

// An error after the write would contradict a change that every reader sees.
TEST_F(RefusedCallsTest, an_edit_in_place_without_a_free_descriptor_changes_nothing) {
  if (!has_linux_io()) GTEST_SKIP() << "no edits in place in this build";
  put(path(), "old");
  const int result = in_child([&] {
    // UBSan opens a pipe when it first meets a class that has virtual functions.
    { const EditedFile met = EditedFile::open(path().c_str()); }
    EditedFile file = EditedFile::open(path().c_str());
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 99;
    return error_of([&] { file.patch(0, "new", 3, false); }).os_error;
  });
  EXPECT_EQ(result, EMFILE);
  EXPECT_EQ(contents(path()), "old");
}

// Without permission to list the directory, only the file is synced. Any other error is reported.
TEST_F(RefusedCallsTest, a_sync_after_an_edit_is_of_the_file_and_its_directory) {
  put(path(), "x");
  errno = ELOOP;  // of an earlier call
  const EditedFile file = EditedFile::open(path().c_str());
  struct stat status {};
  struct stat around {};
  ASSERT_EQ(stat(path().c_str(), &status) | stat(folder.c_str(), &around), 0);
  for (const int error : {0, EACCES, EMFILE}) {
    faults::Plan kernel;
    kernel.record_changes = true;
    faults::arm(kernel);
    read_faults::arm({"open", 0, 1, error});
    EXPECT_EQ(error_of([&] { file.sync(); }).os_error, error == EACCES ? 0 : error);
    read_faults::disarm();
    faults::disarm();
    std::vector<std::uint64_t> synced;
    for (const faults::Change& change : faults::changes()) synced.push_back(change.inode);
    std::vector<std::uint64_t> wanted;
    if (error != EMFILE) wanted.push_back(status.st_ino);
    if (error == 0) wanted.push_back(around.st_ino);
    EXPECT_EQ(synced, wanted) << error;
  }
  faults::Plan broken;
  broken.at = 0;
  broken.action = faults::Action::fail;
  broken.error = EIO;
  faults::arm(broken);
  const Error failed = error_of([&] { file.sync(); });
  faults::disarm();
  EXPECT_EQ(failed.os_error, EIO);
  EXPECT_NE(failed.message.find("may not be on the disk"), std::string::npos) << failed.message;
}

TEST_F(RefusedCallsTest, an_edit_without_a_free_descriptor_says_so) {
  put(path(), "old");
  const int result = in_child([&] {
    { const EditedFile met = EditedFile::open(path().c_str()); }  // UBSan opens a pipe then
    rlimit few{};
    if (getrlimit(RLIMIT_NOFILE, &few) != 0) return 99;
    for (few.rlim_cur = 0; few.rlim_cur < std::min<rlim_t>(few.rlim_max, 1024); ++few.rlim_cur) {
      if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 99;
      const int error = error_of([&] { EditedFile::open(path().c_str()); }).os_error;
      if (error != EMFILE) return error;
    }
    return 98;
  });
  EXPECT_EQ(result, 0);
}

// Beyond the limit, the kernel would write a part of the bytes.
TEST_F(RefusedCallsTest, an_edit_in_place_is_within_the_limit_of_size_or_changes_nothing) {
  if (!has_linux_io()) GTEST_SKIP() << "no edits in place in this build";
  put(path(), "0123456789");
  const int result = in_child([&] {
    EditedFile file = EditedFile::open(path().c_str());
    const rlimit small{4, 4};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) return 99;
    if (error_of([&] { file.patch(3, "ab", 2, false); }).os_error != EFBIG) return 1;
    if (error_of([&] { file.overwrite("x", 3, "ab", 2, false); }).os_error != EFBIG) return 2;
    if (contents(path()) != "0123456789") return 3;
    return file.patch(2, "ab", 2, false) == EditedFile::Patch::done ? 0 : 4;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(contents(path()), "01ab456789");
}

TEST_F(RefusedCallsTest, a_file_is_not_marked_after_a_tensor_was_written) {
  put(path(), "0123456789");
  EditedFile file = EditedFile::open(path().c_str());
  EXPECT_TRUE(file.overwrite("x", 3, "ab", 2, false));
  const Descriptor other(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(is_byte_locked(other.get(), LockedByte::data));
  const Descriptor writer(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  set_byte_lock(writer.get(), LockedByte::data, ByteLock::exclusive);
  EXPECT_EQ(is_byte_locked(other.get(), LockedByte::data), has_linux_io());
}

// A save without a lock may happen until the rename.
TEST_F(RefusedCallsTest, an_edit_looks_at_its_target_last_of_all) {
  std::size_t looks = 0;
  for (bool looked = true; looked; ++looks) {
    SCOPED_TRACE(looks);
    put(path(), "old");
    put(path("saved"), "saved");
    const EditedFile edited = EditedFile::open(path().c_str());
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    file.write_at(0, "edited", 6);
    read_faults::Plan plan;
    plan.call = "stat";
    plan.before = [&](std::size_t number) {
      if (number == looks) fs::rename(path("saved"), path());
    };
    read_faults::arm(plan);
    const Error error = error_of([&] { file.commit_over(edited); });
    read_faults::disarm();
    looked = read_faults::calls() > looks;
    EXPECT_EQ(error.status, looked ? Status::state : Status::ok) << error.message;
    EXPECT_EQ(contents(path()), looked ? "saved" : "edited");
  }
  EXPECT_GT(looks, 2U);
}

// The save finds no file to lock. Before its rename, another save creates one, and an edit locks it.
TEST_F(RefusedCallsTest, a_save_waits_for_the_lock_of_a_file_that_appears) {
  if (!has_linux_io()) GTEST_SKIP() << "no locks of edits in this build";
  std::size_t looks = 0;
  for (bool looked = true; looked; ++looks) {
    SCOPED_TRACE(looks);
    put(path(), "old");
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    file.write_at(0, "new", 3);
    fs::remove(path());
    std::atomic<bool> unlocked = false;
    std::thread edit;
    read_faults::Plan plan;
    plan.call = "stat";
    plan.before = [&](std::size_t number) {
      if (number != looks || edit.joinable()) return;
      put(path(), "theirs");
      auto lock = std::make_shared<EditLock>(EditLock::of_name(AT_FDCWD, path()));
      EXPECT_TRUE(lock->held());
      edit = std::thread([&unlocked, lock = std::move(lock)]() mutable {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        unlocked = true;
        lock.reset();
      });
    };
    read_faults::arm(plan);
    const Error error = error_of([&] { file.commit(); });
    const bool in_time = unlocked;
    read_faults::disarm();
    looked = edit.joinable();
    if (looked) edit.join();
    EXPECT_EQ(error.message, "");
    EXPECT_EQ(contents(path()), "new");
    EXPECT_TRUE(in_time || !looked);
  }
  EXPECT_GT(looks, 2U);
}

// ---- targets -------------------------------------------------------------------------------------------------------

std::string exchanged;
std::string victim;

TEST_F(RefusedCallsTest, a_link_of_somebody_else_in_a_sticky_folder_is_not_followed) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  put(path("secret"), "old");
  const struct {
    mode_t folder;
    uid_t owner;
    bool followed;
  } cases[] = {{01777, 12345, false}, {01777, 0, true}, {0777, 12345, true}, {01755, 12345, true}};
  for (const auto& [mode, owner, followed] : cases) {
    for (const std::string to : {"secret", "absent"}) {
      SCOPED_TRACE(formatted("{:o} {} {}", mode, owner, to));
      fs::remove(path("absent"));
      fs::remove_all(path("tmp"));
      put(path("secret"), "old");
      fs::create_directory(path("tmp"));
      fs::create_symlink("../" + to, path("tmp/x"));
      ASSERT_EQ(lchown(path("tmp/x").c_str(), owner, owner) | chmod(path("tmp").c_str(), mode), 0);
      EXPECT_EQ(error_of([&] { write(path("tmp/x"), "new"); }).os_error, followed ? 0 : EACCES);
      EXPECT_EQ(contents(path(to)), followed ? "new" : to == "secret" ? "old" : "");
    }
  }
  // A save follows this link where the kernel does, but does not replace it where the directory forbids that.
  ASSERT_EQ(lchown(path("tmp/x").c_str(), 12345, 12345) | chmod(path("tmp").c_str(), 01770), 0);
  const auto replacing = [&] { AtomicFile::create(path("tmp/x").c_str(), {.replace_link = true}); };
  EXPECT_EQ(error_of(replacing).os_error, EACCES);
}

TEST_F(RefusedCallsTest, a_file_that_a_sticky_folder_holds_is_refused_before_it_is_written) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  put(path(), "old");
  ASSERT_EQ(chmod(path().c_str(), 0666) | chmod(folder.c_str(), 01777), 0);
  EXPECT_EQ(as_user(12345, 12345, [&] { return error_of([&] { AtomicFile::create(path().c_str(), {}); }).os_error; }),
            EPERM);
  fs::create_symlink("x", path("link"));
  const auto begin = [&] { AtomicFile::create(path("link").c_str(), {.replace_link = true}); };
  EXPECT_EQ(as_user(12345, 12345, [&] { return error_of(begin).os_error; }), EPERM);
  EXPECT_EQ(error_of([&] { write(path(), "new"); }).message, "");
  // Root may replace any user's file in a directory that others cannot write to.
  ASSERT_EQ(chown(path().c_str(), 12345, 12345) | chown(folder.c_str(), 12346, 12346), 0);
  ASSERT_EQ(chmod(folder.c_str(), 01755), 0);
  EXPECT_EQ(error_of([&] { write(path(), "newer"); }).message, "");
  EXPECT_EQ(contents(path()), "newer");
  // So may the owner of the directory.
  ASSERT_EQ(chown(path().c_str(), 0, 0) | chmod(path().c_str(), 0666), 0);
  EXPECT_EQ(as_user(12346, 12346, [&] { return error_of([&] { write(path(), "newest"); }).os_error; }), 0);
  EXPECT_EQ(contents(path()), "newest");
}

struct StickyCase {
  mode_t folder_mode;
  uid_t folder_owner;
  uid_t owner;
  bool refused;
};

// As protected_regular and protected_fifos at level 2. The caller is root.
const StickyCase kStickyCases[] = {
    {01777, 0, 12345, true},      {01777, 12346, 12345, true},  {01770, 0, 12345, true}, {01702, 0, 12345, true},
    {01777, 12345, 12345, false}, {01777, 12345, 0, false},     {01777, 0, 0, false},    {0777, 0, 12345, false},
    {01755, 0, 12345, false},     {01700, 12346, 12345, false},
};

void expect_refusal(const Error& error, const StickyCase& test) {
  EXPECT_EQ(error.os_error, test.refused ? EACCES : 0) << error.message;
  if (!test.refused) return;
  EXPECT_EQ(error.status, Status::open);
  EXPECT_NE(error.message.find(formatted("tmp/x': belongs to user {}, in a sticky directory", test.owner)),
            std::string::npos)
      << error.message;
}

TEST_F(RefusedCallsTest, a_file_or_fifo_of_another_user_in_a_sticky_folder_is_not_written) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  const std::string at = path("tmp/x");
  for (const StickyCase& test : kStickyCases) {
    SCOPED_TRACE(formatted("{:o} of {}, file of {}", test.folder_mode, test.folder_owner, test.owner));
    fs::remove_all(path("tmp"));
    fs::create_directory(path("tmp"));
    put(at, "old");
    const auto give = [&] {
      ASSERT_EQ(lchown(at.c_str(), test.owner, 0) | chown(path("tmp").c_str(), test.folder_owner, 0), 0);
      ASSERT_EQ(chmod(path("tmp").c_str(), test.folder_mode), 0);
    };
    give();
    const Descriptor theirs(::open(at.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(!test.refused || flock(theirs.get(), LOCK_EX) == 0);  // which is not waited for
    expect_refusal(error_of([&] { EditedFile::open(at.c_str()); }), test);
    expect_refusal(error_of([&] { write(at, "new"); }), test);
    struct stat status {};
    ASSERT_EQ(stat(at.c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, test.owner);
    EXPECT_EQ(contents(at), test.refused ? "old" : "new");
    fs::remove(at);
    ASSERT_EQ(mkfifo(at.c_str(), 0666), 0);
    give();
    const Descriptor reader(::open(at.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    expect_refusal(error_of([&] { write(at, "new"); }), test);
    char byte = 0;
    EXPECT_EQ(::read(reader.get(), &byte, 1), test.refused ? 0 : 1);
  }
}

TEST_F(RefusedCallsTest, a_user_writes_to_files_of_his_own_in_a_sticky_folder) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  put(path(), "old");
  ASSERT_EQ(chown(path().c_str(), 12345, 12345) | chmod(folder.c_str(), 01777), 0);
  const auto both = [&] {
    const int edit = error_of([&] { EditedFile::open(path().c_str()); }).os_error;
    return edit != 0 ? edit : error_of([&] { write(path(), "new"); }).os_error;
  };
  EXPECT_EQ(as_user(12345, 12345, both), 0);
  // The owner of the directory does not matter for a new file.
  ASSERT_EQ(chown(folder.c_str(), 12346, 12346), 0);
  EXPECT_EQ(as_user(12345, 12345, [&] { return error_of([&] { write(path("new"), "new"); }).os_error; }), 0);
  // The effective user matters, not the real one.
  EXPECT_EQ(in_child([&] { return seteuid(12345) != 0 ? 99 : both(); }), 0);
}

// The new file would have got that user as its owner.
// Its mode and owner are not those of the file that the save was to replace.
TEST_F(RefusedCallsTest, what_takes_the_files_place_and_is_none_is_not_replaced) {
  for (const bool link : {true, false}) {
    SCOPED_TRACE(link);
    fs::remove(path());
    put(path(), "old");
    ASSERT_EQ(chmod(path().c_str(), 0600), 0);
    {
      AtomicFile file = AtomicFile::create(path().c_str(), {});
      file.write_at(0, "new", 3);
      fs::rename(path(), path("blob"));
      if (link) fs::create_symlink("blob", path());
      const bool made = link || mkfifo(path().c_str(), 0666) == 0;
      ASSERT_TRUE(made);
      const Error error = error_of([&] { file.commit(); });
      EXPECT_EQ(error.status, Status::state);
      EXPECT_EQ(error.os_error, 0) << error.message;  // so an edit begins again
    }
    EXPECT_EQ(contents(path("blob")), "old");
    EXPECT_EQ(mode_of(path("blob")), 0600U);
    EXPECT_EQ(files(), 2U);
  }
}

TEST_F(RefusedCallsTest, what_another_user_puts_into_a_sticky_folder_meanwhile_is_not_replaced) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  enum Kind { file_of_bytes, link_to_nothing, fifo };
  for (const auto& [kind, nameless] : {std::pair{file_of_bytes, true},
                                       {file_of_bytes, false},
                                       {link_to_nothing, true},
                                       {link_to_nothing, false},
                                       {fifo, true},
                                       {fifo, false}}) {
    SCOPED_TRACE(formatted("{} {}", static_cast<int>(kind), nameless));
    faults::Plan kernel;
    kernel.no_nameless_files = !nameless;
    kernel.only_refusals = true;
    faults::arm(kernel);
    fs::remove(path());
    AtomicFile file = AtomicFile::create(path().c_str(), {});
    file.write_at(0, "secret", 6);
    if (kind == file_of_bytes) put(path(), "theirs");
    if (kind == link_to_nothing) fs::create_symlink("nothing", path());
    const bool made = kind != fifo || mkfifo(path().c_str(), 0666) == 0;
    ASSERT_TRUE(made);
    ASSERT_EQ(lchown(path().c_str(), 12345, 12345), 0);
    const Error error = error_of([&] { file.commit(); });
    EXPECT_EQ(error.status, Status::open);
    EXPECT_EQ(error.os_error, EACCES) << error.message;
    struct stat there {};
    ASSERT_EQ(lstat(path().c_str(), &there), 0);
    EXPECT_EQ(there.st_uid, 12345U);
    file = {};
    EXPECT_EQ(files(), 1U);
  }
}

// The other user acts before each of the queries with which the save examines its target.
TEST_F(RefusedCallsTest, what_another_user_puts_into_a_sticky_folder_at_any_moment_is_not_replaced) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  for (const auto& [nameless, replaces] : {std::pair{true, false}, {false, false}, {true, true}, {false, true}}) {
    bool reached = true;
    for (std::size_t at = 0; reached; ++at) {
      SCOPED_TRACE(formatted("{} {} {}", nameless, replaces, at));
      faults::Plan kernel;
      kernel.no_nameless_files = !nameless;
      kernel.only_refusals = true;
      faults::arm(kernel);
      fs::remove(path());
      if (replaces) put(path(), "old");
      AtomicFile file = AtomicFile::create(path().c_str(), {});
      read_faults::Plan plan{"stat"};
      plan.before = [&](std::size_t number) {
        if (number != at) return;
        put(path("theirs"), "theirs");
        EXPECT_EQ(chown(path("theirs").c_str(), 12345, 12345), 0);
        fs::rename(path("theirs"), path());
      };
      read_faults::arm(plan);
      const Error error = error_of([&] { file.commit(); });
      read_faults::disarm();
      reached = read_faults::calls() > at;
      EXPECT_EQ(error.os_error, reached ? EACCES : 0) << error.message;
    }
  }
}

TEST_F(RefusedCallsTest, an_edit_follows_no_link_of_another_user_in_a_sticky_folder) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  fs::create_directory(path("tmp"));
  put(path("secret"), "secret");
  const StickyCase cases[] = {
      {01777, 0, 12345, true}, {01777, 0, 0, false}, {0777, 0, 12345, false}, {01770, 0, 12345, false}};
  for (const StickyCase& test : cases) {
    SCOPED_TRACE(formatted("{:o} {}", test.folder_mode, test.owner));
    fs::remove(path("tmp/x"));
    fs::create_symlink("../secret", path("tmp/x"));
    ASSERT_EQ(lchown(path("tmp/x").c_str(), test.owner, 0) | chmod(path("tmp").c_str(), test.folder_mode), 0);
    EXPECT_EQ(error_of([&] { EditedFile::open(path("tmp/x").c_str()); }).os_error, test.refused ? EACCES : 0);
  }
}

// When links are checked, it is our own file; whenever the path is opened, it is another user's link.
TEST_F(RefusedCallsTest, an_edit_follows_no_link_that_is_exchanged) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  if (!has_linux_io()) GTEST_SKIP() << "this build opens folders as it opens files";
  put(path("secret"), "secret");
  put(path("own"), "own");
  fs::create_directory(path("tmp"));
  ASSERT_EQ(chmod(path("tmp").c_str(), 01777), 0);
  exchanged = path("tmp/x");
  victim = path("secret");
  fs::create_symlink(victim, exchanged);
  faults::Plan kernel;
  kernel.only_refusals = true;
  kernel.before_open = [](const char*, int flags) {
    fs::remove(exchanged);
    if ((flags & O_PATH) != 0) return fs::create_hard_link(fs::path(victim).replace_filename("own"), exchanged);
    fs::create_symlink(victim, exchanged);
    ASSERT_EQ(lchown(exchanged.c_str(), 12345, 12345), 0);
  };
  faults::arm(kernel);
  const Error error = error_of([&] { EditedFile::open(exchanged.c_str()); });
  faults::disarm();
  EXPECT_EQ(error.status, Status::state);
  EXPECT_NE(error.message.find("keeps being replaced by another process"), std::string::npos) << error.message;
}

TEST_F(RefusedCallsTest, who_may_rename_the_files_of_others_is_root_where_rights_are_not_told) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  const auto may = [](const std::vector<long>& refused) {
    if (!refused.empty() && !refuse(refused, EPERM)) return 255;
    return may_rename_others_files() ? 1 : 0;
  };
  for (const std::vector<long>& refused : {std::vector<long>{}, std::vector<long>{SYS_capget}}) {
    const int root = in_child([&] { return may(refused); });
    if (root == 255) GTEST_SKIP() << "this system has no filters of calls";
    EXPECT_EQ(root, 1) << refused.size();
    EXPECT_EQ(as_user(12345, 12345, [&] { return may(refused); }), 0) << refused.size();
  }
}

TEST_F(RefusedCallsTest, root_may_not_rename_the_files_of_others_without_the_right_to) {
  if (geteuid() != 0) GTEST_SKIP() << "only root has the right";
  if (!has_linux_io()) GTEST_SKIP() << "this build does not ask about rights";
  const int result = in_child([] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    if (syscall(SYS_capget, &header, sets) != 0) return 255;
    sets[0].effective &= ~(1U << CAP_FOWNER);
    if (syscall(SYS_capset, &header, sets) != 0) return 255;
    return may_rename_others_files() ? 1 : 0;
  });
  if (result == 255) GTEST_SKIP() << "rights are not told";
  EXPECT_EQ(result, 0);
}

// A container may have the /proc of another one.
TEST_F(RefusedCallsTest, a_file_is_not_linked_or_reopened_by_a_proc_that_shows_other_files) {
  if (!has_linux_io()) GTEST_SKIP() << "no nameless files in this build";
  for (const char* const name : {"proc", "proc/thread-self", "proc/thread-self/fd"}) fs::create_directory(path(name));
  const Descriptor inside(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Descriptor file = open_nameless(inside.get(), 0600);
  if (!file) GTEST_SKIP() << "no nameless files in " << folder;
  read_faults::arm({"stat", 0, 1, EIO});
  const int linked = link_nameless(file.get(), inside.get(), "x");
  const int error = errno;
  read_faults::disarm();
  EXPECT_EQ(linked, -1);
  EXPECT_EQ(error, EIO);
  put(path(formatted("proc/thread-self/fd/{}", file.get())), "another's");
  const int result = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(path("proc").c_str(), "/proc", nullptr, MS_BIND, nullptr) != 0) {
      return 255;
    }
    errno = 0;
    const Descriptor again = reopen(file.get(), O_RDONLY);
    if (again || errno != ESTALE) return 253;
    errno = 0;
    return link_nameless(file.get(), inside.get(), "x") == -1 ? errno : 254;
  });
  if (result == 255) GTEST_SKIP() << "/proc cannot be replaced here";
  EXPECT_EQ(result, ENOENT);
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(RefusedCallsTest, a_mount_point_is_refused_before_it_is_written) {
  if (!has_linux_io()) GTEST_SKIP() << "this build does not ask about mounts";
  put(path(), "old");
  put(path("mounted"), "mounted");
  const int result = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(path("mounted").c_str(), path().c_str(), nullptr, MS_BIND, nullptr) != 0) {
      return 255;
    }
    return error_of([&] { AtomicFile::create(path().c_str(), {}); }).os_error;
  });
  if (result == 255) GTEST_SKIP() << "mounting is not allowed";
  EXPECT_EQ(result, EBUSY);
}

TEST_F(RefusedCallsTest, a_fifo_that_becomes_something_else_is_not_written_to) {
  exchanged = path("fifo");
  victim = path("victim");
  ASSERT_EQ(mkfifo(path("other").c_str(), 0600), 0);
  const Descriptor reader(::open(path("other").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const struct {
    const char* name;
    void (*exchange)();
    int os_error;
  } steps[] = {
      {"a link", [] { fs::create_symlink(victim, exchanged); }, ELOOP},
      {"a file", [] { fs::create_hard_link(victim, exchanged); }, 0},
      {"another fifo", [] { fs::create_hard_link(fs::path(exchanged).replace_filename("other"), exchanged); }, 0},
      {"nothing", [] {}, ENOENT},
  };
  for (const auto& [name, exchange, os_error] : steps) {
    SCOPED_TRACE(name);
    put(victim, "old and longer");
    fs::remove(exchanged);
    ASSERT_EQ(mkfifo(exchanged.c_str(), 0600), 0);
    static void (*step)();
    step = exchange;
    faults::Plan kernel;
    kernel.before_open = [](const char*, int flags) {
      if ((flags & O_ACCMODE) != O_WRONLY) return;
      fs::remove(exchanged);
      step();
    };
    kernel.only_refusals = true;
    faults::arm(kernel);
    const Error error = error_of([&] { write(exchanged, "new"); });
    faults::disarm();
    EXPECT_EQ(error.status, Status::open);
    EXPECT_EQ(error.os_error, os_error) << error.message;
    EXPECT_EQ(contents(victim), "old and longer");
  }
}

// It is checked through a descriptor, which may refer to another file by then.
TEST_F(RefusedCallsTest, a_link_that_becomes_something_else_is_not_followed) {
  if (!has_linux_io()) GTEST_SKIP() << "this build opens no link to look at it";
  const struct {
    const char* name;
    void (*exchange)();
    int os_error;
  } steps[] = {{"nothing", [] {}, ENOENT}, {"a file", [] { put(exchanged, "theirs"); }, EAGAIN}};
  for (const auto& [name, exchange, os_error] : steps) {
    SCOPED_TRACE(name);
    exchanged = path("link");
    fs::remove(exchanged);
    fs::create_symlink("target", exchanged);
    static void (*step)();
    step = exchange;
    faults::Plan kernel;
    kernel.before_open = [](const char*, int flags) {
      if ((flags & O_NOFOLLOW) == 0) return;
      fs::remove(exchanged);
      step();
    };
    kernel.only_refusals = true;
    faults::arm(kernel);
    const Error error = error_of([&] { write(exchanged, "new"); });
    faults::disarm();
    EXPECT_EQ(error.os_error, os_error) << error.message;
    EXPECT_EQ(error.message.find("was replaced while it was being opened") != std::string::npos, os_error == EAGAIN);
    EXPECT_FALSE(fs::exists(path("target")));
  }
}

}  // namespace
}  // namespace st::io::refused_calls_test
