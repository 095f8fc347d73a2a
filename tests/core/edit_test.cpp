// Editing metadata and tensors: what is changed and where, and the state of the file after a kill.
// SPDX-License-Identifier: Apache-2.0
#include "core/edit.hpp"

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
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "../format/file_front.hpp"
#include "../io/faults.hpp"
#include "../io/read_faults.hpp"
#include "../io/refuse.hpp"
#include "../io/system.hpp"
#include "base/text.hpp"
#include "core/checkpoint.hpp"
#include "core/writer.hpp"
#include "io/edited_file.hpp"
#include "io/posix/edit.hpp"
#include "io/source.hpp"

namespace st::core::edit_test {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

ino_t inode(const std::string& path) {
  struct stat status {};
  stat(path.c_str(), &status);
  return status.st_ino;
}

class EditTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  void make(const WriteOptions& options, std::size_t tensors = 3, const std::string& note = {}) const {
    Writer writer;
    writer.set_metadata("format", "pt");
    if (!note.empty()) writer.set_metadata("note", note);
    for (std::size_t i = 0; i < tensors; ++i) {
      writer.add(formatted("tensor.{:06}", i), Dtype::U8, shape_, data_.data());
    }
    writer.begin(path.c_str(), options);
    writer.finish();
  }

  void set(std::string_view key, std::string_view value, const EditOptions& options = {}) const {
    const MetadataChange change{key, value};
    edit_metadata(path.c_str(), {&change, 1}, options);
  }

  void remove(std::string_view key) const {
    const MetadataChange change{key, std::nullopt};
    edit_metadata(path.c_str(), {&change, 1}, {});
  }

  std::string value(std::string_view key) const {
    const CheckpointPtr file = Checkpoint::open(path.c_str(), {});
    const MetadataPair* const pair = file->metadata(key);
    return pair == nullptr ? "(none)" : std::string(pair->value);
  }

  void expect_tensors(std::size_t tensors = 3) const {
    const CheckpointPtr file = Checkpoint::open(path.c_str(), {});
    ASSERT_EQ(file->count_tensors(), tensors);
    for (std::size_t i = 0; i < tensors; ++i) {
      std::string got(data_.size(), ' ');
      read(*file->tensor_at(i), got.data());
      ASSERT_EQ(got, data_);
    }
  }

  const fs::path folder = fs::path(testing::TempDir()) / formatted("edit{}", getpid());
  const std::string path = folder / "x.safetensors";

 private:
  const std::array<std::uint64_t, 1> shape_{100};
  const std::string data_ = std::string(100, 'd');
};

TEST_F(EditTest, with_room_in_place) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  WriteOptions options;
  options.header_reserve = 200;
  make(options, 1000);
  const ino_t before = inode(path);
  const auto size = fs::file_size(path);
  set("note", "hello");
  EXPECT_EQ(value("note"), "hello");
  set("note", "");
  set("other", "x");
  remove("note");
  remove("never there");
  EXPECT_EQ(value("note"), "(none)");
  EXPECT_EQ(value("other"), "x");
  EXPECT_EQ(value("format"), "pt");
  EXPECT_EQ(inode(path), before);
  EXPECT_EQ(fs::file_size(path), size);
  expect_tensors(1000);
}

TEST_F(EditTest, without_room_by_a_new_file_that_is_what_the_writer_would_have_written) {
  make({});
  const ino_t before = inode(path);
  set("note", std::string(1000, 'n'));
  EXPECT_NE(inode(path), before);
  expect_tensors();
  const std::string edited = contents(path);
  make({}, 3, std::string(1000, 'n'));
  EXPECT_EQ(contents(path), edited);
}

TEST_F(EditTest, a_hole_at_the_end_of_the_data_moves_with_it) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1048576],"data_offsets":[0,1048576]}})";
  std::ofstream(path, std::ios::binary) << format::file_front(header);
  fs::resize_file(path, fs::file_size(path) + (1 << 20));
  set("note", std::string(10'000, 'x'));
  EXPECT_EQ(value("note").size(), 10'000U);
}

TEST_F(EditTest, what_was_removed_is_room_for_what_comes) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  make({});
  set("note", std::string(300, 'n'));
  const ino_t before = inode(path);
  remove("note");
  set("other", std::string(200, 'o'));
  EXPECT_EQ(inode(path), before);
  EXPECT_EQ(value("other"), std::string(200, 'o'));
  expect_tensors();
}

TEST_F(EditTest, keeps_the_alignment_of_the_data) {
  WriteOptions options;
  options.data_alignment = 4096;
  make(options);
  set("note", std::string(5000, 'n'));
  const CheckpointPtr file = Checkpoint::open(path.c_str(), {});
  EXPECT_EQ(file->shard(0).table.data_begin % 4096, 0U);
  expect_tensors();

  // The alignment is at most 1 MiB, even if the position is a multiple of 2 MiB.
  options.data_alignment = options.header_reserve = 1 << 20;
  make(options);
  ASSERT_EQ(Checkpoint::open(path.c_str(), {})->shard(0).table.data_begin, 2U << 20);
  set("note", std::string(2 << 20, 'n'));
  EXPECT_EQ(Checkpoint::open(path.c_str(), {})->shard(0).table.data_begin, 3U << 20);
}

TEST_F(EditTest, gives_the_data_an_alignment_if_asked) {
  make({});
  EditOptions options;
  options.data_alignment = 256;
  set("format", "pt", options);
  EXPECT_EQ(Checkpoint::open(path.c_str(), {})->shard(0).table.data_begin % 256, 0U);
  expect_tensors();
}

TEST_F(EditTest, leaves_room_for_the_next_edit_if_asked) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  make({}, 1000);
  EditOptions options;
  options.header_reserve = 500;
  set("note", "1", options);
  const ino_t before = inode(path);
  set("note", std::string(400, '2'));
  EXPECT_EQ(inode(path), before);
  expect_tensors(1000);
}

// The first metadata of a file: the reserved space is then after the comma.
TEST_F(EditTest, room_left_with_the_first_metadata_is_used) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  const std::string header = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  std::ofstream(path, std::ios::binary) << bytes + header + "D";
  EditOptions options;
  options.header_reserve = 500;
  set("note", "1", options);
  const ino_t before = inode(path);
  const auto size = fs::file_size(path);
  for (const std::size_t length : {400U, 10U, 480U, 0U, 450U}) {
    set("note", std::string(length, '2'), options);
    EXPECT_EQ(inode(path), before) << length;
    EXPECT_EQ(fs::file_size(path), size) << length;
    EXPECT_EQ(value("note"), std::string(length, '2'));
    EXPECT_EQ(contents(path).back(), 'D');
  }
  set("note", std::string(600, '3'));
  EXPECT_EQ(value("note"), std::string(600, '3'));
}

// A change that does not fit in one atomic write makes a new file, even if the header has room.
TEST_F(EditTest, not_in_place_over_more_than_one_block_or_for_a_power_cut_one_sector) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  WriteOptions options;
  options.header_reserve = 10'000;
  make(options);
  ino_t before = inode(path);
  set("note", std::string(3000, 'n'));
  EXPECT_EQ(inode(path), before);
  set("note", std::string(3000, 'm'), {true, 0, 0});
  EXPECT_NE(inode(path), before);
  before = inode(path);
  set("note", std::string(6000, 'n'));
  EXPECT_NE(inode(path), before);
  set("a", "b");
  before = inode(path);
  set("a", "c", {true, 0, 0});
  EXPECT_EQ(inode(path), before);
  expect_tensors();
}

TEST_F(EditTest, without_a_change_nothing_is_written) {
  make({});
  const auto before = fs::last_write_time(path);
  set("format", "pt");
  remove("absent");
  EXPECT_EQ(fs::last_write_time(path), before);
}

// An earlier edit may not have synced it. If its sync failed, the system takes the pages as written.
TEST_F(EditTest, without_a_change_the_file_and_its_folder_are_synced_if_asked) {
  make({});
  const std::string before = contents(path);
  faults::arm({});
  set("format", "pt", {true, 0, 0});
  const std::vector<std::string> calls = faults::calls();
  faults::disarm();
  EXPECT_EQ(contents(path), before);
  const auto written = std::find(calls.begin(), calls.end(), "pwrite");
  if (io::has_linux_io()) {
    EXPECT_LT(written, std::find(calls.begin(), calls.end(), "fsync"));
  }
  for (const char* const call : {"fsync", "fsync folder"}) {
    SCOPED_TRACE(call);
    const auto found = std::find(calls.begin(), calls.end(), call);
    ASSERT_NE(found, calls.end());
    faults::Plan plan;
    plan.at = static_cast<std::size_t>(found - calls.begin());
    plan.action = faults::Action::fail;
    plan.error = EIO;
    faults::arm(plan);
    try {
      set("format", "pt", {true, 0, 0});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.status, Status::write) << error.message;
      EXPECT_EQ(error.os_error, EIO);
    }
    faults::disarm();
  }
  expect_tensors();
}

// Whoever opens a FIFO waits for its other end.
TEST_F(EditTest, a_fifo_that_takes_the_files_place_blocks_nothing) {
  const fs::path fifo = folder / "fifo";
  std::size_t at = 0;
  for (bool exchanged = true; exchanged; ++at) {
    SCOPED_TRACE(at);
    fs::remove(path);
    fs::remove(fifo);
    make({});
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    read_faults::Plan plan;
    plan.call = "stat";
    plan.before = [&](std::size_t number) {
      if (number == at) fs::rename(fifo, path);
    };
    read_faults::arm(plan);
    alarm(60);
    Status status = Status::ok;
    try {
      set("note", std::string(5000, 'n'));
    } catch (const Error& error) {
      status = error.status;
    }
    alarm(0);
    exchanged = read_faults::calls() > at;
    read_faults::disarm();
    EXPECT_EQ(fs::is_fifo(path), exchanged);
    EXPECT_EQ(status == Status::ok, !exchanged);
  }
  EXPECT_GT(at, 5U);
}

// The file may have got its name by an edit whose sync of the directory failed.
TEST_F(EditTest, a_synced_edit_in_place_syncs_the_directory) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no edits in place in this build";
  WriteOptions options;
  options.header_reserve = 1000;
  make(options);
  const ino_t before = inode(path);
  set("note", "a");
  faults::arm({});
  set("note", "b", {true, 0, 0});
  const std::vector<std::string> calls = faults::calls();
  faults::disarm();
  EXPECT_EQ(inode(path), before);
  EXPECT_NE(std::find(calls.begin(), calls.end(), "fsync folder"), calls.end());
}

// A header with unusual formatting is kept if nothing changes, even without room.
TEST_F(EditTest, without_a_change_no_spelling_is_touched) {
  const std::string tensor = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const std::string headers[] = {
      R"({"__metadata__":{"b":"1","a":"2"},)" + tensor + "}",
      R"({ "__metadata__" : { "a" : "2" , "b" : "\u0031" } , )" + tensor + " }",
      "  {" + tensor + R"(,"__metadata__":{"a":"2","b":"1"}})",
  };
  for (const std::string& header : headers) {
    SCOPED_TRACE(header);
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    bytes += header + "D";
    std::ofstream(path, std::ios::binary) << bytes;
    const ino_t before = inode(path);
    set("a", "2");
    set("b", "1");
    remove("c");
    edit_metadata(path.c_str(), {}, {});
    EXPECT_EQ(contents(path), bytes);
    EXPECT_EQ(inode(path), before);
    const MetadataChange both[] = {{"a", "3"}, {"a", "2"}};  // the last counts
    edit_metadata(path.c_str(), both, {});
    EXPECT_EQ(contents(path), bytes);
    set("b", "2");
    EXPECT_NE(contents(path), bytes);
    EXPECT_EQ(value("b"), "2");
    EXPECT_EQ(value("a"), "2");
    const MetadataChange exchange[] = {{"a", std::nullopt}, {"c", "2"}};  // as many as before
    edit_metadata(path.c_str(), exchange, {});
    EXPECT_EQ(value("a") + value("c"), "(none)2");
  }
}

// White space before a header is used for metadata only if it is large enough.
TEST_F(EditTest, white_space_in_front_is_used_as_far_as_it_goes) {
  for (const std::size_t spaces : {0U, 1U, 20U, 27U, 28U, 29U, 30U, 31U, 40U, 100U}) {
    for (const std::size_t length : {1U, 5U, 60U}) {
      const std::string header = std::string(spaces, ' ') + R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
      std::string bytes(8, '\0');
      bytes[0] = static_cast<char>(header.size());
      std::ofstream(path, std::ios::binary) << bytes + header + "D";
      set("k", std::string(length, 'v'));
      EXPECT_EQ(value("k"), std::string(length, 'v')) << spaces;
      const CheckpointPtr file = Checkpoint::open(path.c_str(), {});
      ASSERT_EQ(file->count_tensors(), 1U) << spaces;
      char data = ' ';
      read(*file->tensor_at(0), &data);
      EXPECT_EQ(data, 'D') << spaces;
      const std::string member = R"("__metadata__":{"k":")" + std::string(length, 'v') + R"("},)";
      EXPECT_EQ(file->shard(0).header.size() == header.size(), member.size() <= spaces) << spaces << ' ' << length;
    }
  }
}

TEST_F(EditTest, keeps_what_this_library_does_not_know) {
  const std::string header = R"({"t":{"dtype":"U8","extra":[1,{"x":2}],"shape":[1],"data_offsets":[0,1]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  std::ofstream(path, std::ios::binary) << bytes + header + "D";
  set("k", "v");
  EXPECT_NE(contents(path).find(R"({"__metadata__":{"k":"v"},"t":{"dtype":"U8","extra":[1,{"x":2}],"shape")"),
            std::string::npos);
  EXPECT_EQ(contents(path).back(), 'D');
}

TEST_F(EditTest, two_edits_at_once_do_not_mix) {
  make({});
  const int held = open(path.c_str(), O_RDWR);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  try {
    set("a", "b");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status, Status::state);
  }
  close(held);
}

// A save holds the lock of its file for a moment after the rename.
// On NFS flock keeps out every lock through another descriptor, so the editor reads and locks through its own.
TEST_F(EditTest, where_flock_locks_bytes_nothing_is_locked_out_but_others) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  make({});
  faults::set_flock_by_bytes(true);
  const auto begin = std::chrono::steady_clock::now();
  for (const long seconds : {0, 10}) {  // a reader locks a byte of a file that changed lately, and unlocks it
    faults::set_clock(seconds);
    set("note", std::string(1000 + static_cast<std::size_t>(seconds), 'n'));  // by a new file
    set("note", std::string(999, 'm'));                                       // in place
  }
  faults::set_clock(0);
  const auto time = std::chrono::steady_clock::now() - begin;
  std::string refusal;
  try {
    const io::EditedFile other = io::EditedFile::open(path.c_str());
    set("note", "second");
  } catch (const Error& error) {
    refusal = error.message;
  }
  faults::set_flock_by_bytes(false);
  EXPECT_LT(time, std::chrono::seconds(1));  // a reader waits for two seconds
  EXPECT_NE(refusal.find("is being edited by another process"), std::string::npos) << refusal;
  EXPECT_EQ(value("note"), std::string(999, 'm'));
  expect_tensors();
}

TEST_F(EditTest, a_save_that_is_just_over_refuses_no_edit) {
  make({});
  const int held = open(path.c_str(), O_RDWR);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  std::thread save([held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    flock(held, LOCK_UN);
  });
  EXPECT_NO_THROW(set("a", "b"));
  save.join();
  close(held);
  EXPECT_NE(contents(path).find(R"("a":"b")"), std::string::npos);
}

// A child forked during the parent's edit has a copy of the locked descriptor.
TEST_F(EditTest, a_forked_child_does_not_keep_the_lock) {
  make({});
  pid_t child = 0;
  {
    const io::EditedFile edited = io::EditedFile::open(path.c_str());
    child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
  }
  EXPECT_NO_THROW(set("a", "b"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(EditTest, an_unaligned_file_is_not_written_anew_when_nothing_changes) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  const std::string header = R"({"__metadata__":{"k":"v"},"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  ASSERT_NE(header.size() % 8, 0U);
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  bytes += header + "D";
  std::ofstream(path, std::ios::binary) << bytes;
  const ino_t before = inode(path);
  remove("absent");
  set("k", "v");
  EXPECT_EQ(inode(path), before);
  EXPECT_EQ(contents(path), bytes);
  set("k", "w");  // there is room for it
  EXPECT_EQ(inode(path), before);
  EXPECT_EQ(value("k"), "w");
}

TEST_F(EditTest, says_that_a_file_is_read_only) {
  make({});
  chmod(path.c_str(), 0444);
  chmod(folder.c_str(), 0777);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    if (geteuid() == 0 && setuid(12345) != 0) _exit(9);
    try {
      set("a", "b");
    } catch (const Error& error) {
      if (::write(ends[1], error.message.data(), error.message.size()) < 0) _exit(8);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string message(500, '\0');
  message.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], message.data(), message.size()))));
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(message, formatted("'{}': Permission denied", path));
}

// A save during the time in which an edit copies the data into a new file.
TEST_F(EditTest, does_not_undo_a_save) {
  const std::string data(std::size_t{64} << 20, 'o');
  const std::array<std::uint64_t, 1> shape{data.size()};
  {
    Writer writer;
    writer.add("old", Dtype::U8, shape, data.data());
    writer.begin(path.c_str(), {});
    writer.finish();
  }
  std::thread edit([&] { set("note", "n"); });
  usleep(10'000);  // the save must win at any time; now, the edit is most likely copying
  make({});
  edit.join();
  expect_tensors();
}

TEST_F(EditTest, begins_again_on_the_file_of_a_link_that_takes_the_place) {
  if (!io::has_linux_io()) GTEST_SKIP() << "the moment is known by O_TMPFILE";
  make({});
  static std::string at;
  at = path;
  faults::Plan plan;
  plan.before_open = [](const char*, int flags) {
    if ((flags & O_TMPFILE) != O_TMPFILE || fs::is_symlink(at)) return;
    fs::rename(at, at + ".blob");
    fs::create_symlink(at + ".blob", at);
  };
  faults::arm(plan);
  set("note", std::string(100'000, 'n'));
  faults::disarm();
  EXPECT_TRUE(fs::is_symlink(path));
  EXPECT_GT(fs::file_size(path), 100'000U);
  expect_tensors();
}

// The kernel opens the file that such a path refers to, but a save writes to the descriptor.
TEST_F(EditTest, an_open_descriptor_is_refused) {
  WriteOptions roomy;
  roomy.header_reserve = 200;
  make(roomy, 2000);
  const std::string before = contents(path);
  const io::Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  const std::string link = (folder / "link").string();
  fs::create_symlink(formatted("/dev/fd/{}", file.get()), link);
  for (const std::string& name :
       {formatted("/dev/fd/{}", file.get()), formatted("/proc/self/fd/{}", file.get()),
        formatted("/proc/thread-self/fd/{}", file.get()), link, formatted("/proc/{}/fd/{}", getpid(), file.get()),
        formatted("/dev/../dev/fd/{}", file.get())}) {
    // Only the Linux sources recognize every link to an open file.
    const bool other = name.starts_with("/dev/..") || name.starts_with(formatted("/proc/{}", getpid()));
    if (other && !io::has_linux_io()) continue;
    for (const std::string& value : {std::string("short"), std::string(100'000, 'n')}) {
      const MetadataChange change{"note", value};
      try {
        edit_metadata(name.c_str(), {&change, 1}, {});
        ADD_FAILURE() << name;
      } catch (const Error& error) {
        EXPECT_EQ(error.status, Status::open) << error.message;
        EXPECT_NE(error.message.find("is an open descriptor"), std::string::npos) << error.message;
      }
      ASSERT_TRUE(contents(path) == before) << name;
    }
  }
  for (const int number : {0, 1}) {
    const pid_t child = fork();
    if (child == 0) {
      dup2(file.get(), number);
      const MetadataChange change{"note", "n"};
      try {
        edit_metadata(number == 0 ? "/dev/stdin" : "/dev/stdout", {&change, 1}, {});
      } catch (const Error& error) {
        _exit(error.status == Status::open ? 0 : 2);
      }
      _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << number;
    EXPECT_TRUE(contents(path) == before) << number;
  }
}

// ---- tensors ---------------------------------------------------------------------------------------------------------

// The file of make(), with other bytes in one of its tensors.
std::string with_tensor(std::string file, std::size_t number, const std::string& bytes) {
  return file.replace(file.size() - 100 * (3 - number), 100, bytes);
}

TEST_F(EditTest, a_tensor_is_written_in_place_by_one_write) {
  make({});
  const std::string before = contents(path);
  const ino_t inode_before = inode(path);
  const std::string bytes(100, 'n');
  faults::arm({});
  write_tensor(path.c_str(), "tensor.000001", bytes.data(), bytes.size(), false);
  const std::vector<std::string> calls = faults::calls();
  faults::disarm();
  EXPECT_EQ(contents(path), with_tensor(before, 1, bytes));
  EXPECT_EQ(inode(path), inode_before);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "pwrite"), 1);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "fsync"), 0);
}

TEST_F(EditTest, a_synced_write_of_a_tensor_syncs_the_file_and_its_directory) {
  make({});
  const std::string bytes(100, 'n');
  faults::arm({});
  write_tensor(path.c_str(), "tensor.000001", bytes.data(), bytes.size(), true);
  const std::vector<std::string> calls = faults::calls();
  faults::disarm();
  const auto written = std::find(calls.begin(), calls.end(), "pwrite");
  EXPECT_NE(std::find(written, calls.end(), "fsync"), calls.end());
  EXPECT_NE(std::find(written, calls.end(), "fsync folder"), calls.end());
}

// A write sets the time of modification when it begins. A file opened during the last write already has its final time.
TEST_F(EditTest, a_file_that_is_opened_while_a_tensor_is_written_is_not_unchanged) {
  if (!io::has_linux_io()) GTEST_SKIP() << "this build has no OFD locks";
  make({});
  static std::string opened;
  static std::optional<io::RegularFile> file;
  opened = path;
  faults::Plan plan;
  plan.before_pwrite = [] { file = io::RegularFile::open(opened.c_str()); };
  const std::string bytes(100, 'n');
  faults::arm(plan);
  write_tensor(path.c_str(), "tensor.000001", bytes.data(), bytes.size(), false);
  faults::disarm();
  const std::int64_t(&seen)[2] = file->identity().modified;
  const timespec modified{static_cast<std::time_t>(seen[0]), static_cast<long>(seen[1])};
  const timespec times[] = {modified, modified};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(file->overwritten(), io::Overwritten::yes);
  EXPECT_EQ(io::RegularFile::open(path.c_str()).overwritten(), io::Overwritten::no);
  file.reset();
}

TEST_F(EditTest, a_lock_of_another_program_is_no_write_to_a_tensor) {
  make({});
  const io::Descriptor theirs(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(theirs.get(), F_SETLK, &whole), 0);
  EXPECT_EQ(io::RegularFile::open(path.c_str()).overwritten(), io::Overwritten::no);
}

// Whichever call fails, only the tensor changes, and the message says whether it may be half new.
TEST_F(EditTest, after_a_failed_write_only_the_tensor_may_have_changed) {
  const std::string name = "b";
  const std::string old_bytes(std::size_t{9} << 20, 'o');  // two pieces
  const std::string new_bytes(old_bytes.size(), 'n');
  const std::array<std::uint64_t, 1> shape{old_bytes.size()};
  const std::array<std::uint64_t, 1> one{1};
  const auto make_large = [&] {
    Writer writer;
    writer.add("a", Dtype::U8, one, "a");
    writer.add(name, Dtype::U8, shape, old_bytes.data());
    writer.add("c", Dtype::U8, one, "c");
    writer.begin(path.c_str(), {});
    writer.finish();
  };
  make_large();
  const std::string before = contents(path);
  const std::size_t begin = before.size() - 1 - old_bytes.size();
  faults::arm({});
  write_tensor(path.c_str(), name, new_bytes.data(), new_bytes.size(), true);
  const std::vector<std::string> calls = faults::calls();
  faults::disarm();
  ASSERT_GE(std::count(calls.begin(), calls.end(), "pwrite"), 2);
  std::size_t half = 0;
  for (std::size_t at = 0; at < calls.size(); ++at) {
    for (const int error : {EIO, EINTR}) {
      if (error == EINTR && calls[at] != "pwrite") continue;
      SCOPED_TRACE(formatted("call {}, {}, errno {}", at, calls[at], error));
      make_large();
      faults::Plan plan;
      plan.at = at;
      plan.action = faults::Action::fail;
      plan.error = error;
      std::string problem;
      faults::arm(plan);
      try {
        write_tensor(path.c_str(), name, new_bytes.data(), new_bytes.size(), true);
      } catch (const Error& thrown) {
        EXPECT_TRUE(thrown.status == Status::write || thrown.status == Status::open) << thrown.message;
        problem = thrown.message;
      }
      faults::disarm();
      const std::string now = contents(path);
      ASSERT_EQ(now.size(), before.size());
      EXPECT_TRUE(now.compare(0, begin, before, 0, begin) == 0 && now.back() == 'c');
      const std::string tensor = now.substr(begin, old_bytes.size());
      const bool says_half = problem.find("tensor 'b' may contain a part of the new bytes") != std::string::npos;
      const bool says_written = problem.find("tensor 'b' was written to") != std::string::npos;
      if (error == EINTR || problem.empty() || says_written) {
        EXPECT_TRUE(tensor == new_bytes) << problem;
      } else if (!says_half) {
        EXPECT_TRUE(tensor == old_bytes) << problem;
      }
      half += tensor != old_bytes && tensor != new_bytes ? 1 : 0;
      EXPECT_EQ(says_half, calls[at] == "pwrite" && error == EIO);
      if (calls[at].starts_with("fsync")) {
        EXPECT_EQ(says_written, error == EIO);
      }
      EXPECT_TRUE(problem.empty() || error == EIO) << problem;
    }
  }
  EXPECT_GE(half, 1U);
}

// Another process changes the file between the check of its header and the write.
TEST_F(EditTest, a_tensor_is_not_written_to_a_file_that_keeps_changing) {
  const std::string bytes(100, 'n');
  for (const bool always : {false, true}) {
    make({});
    const std::string before = contents(path);
    read_faults::arm({"read", 0, 0, 0});
    write_tensor(path.c_str(), "tensor.000001", before.data(), bytes.size(), false);
    read_faults::disarm();
    const std::size_t reads_of_one = read_faults::calls();
    make({});
    mode_t mode = 0600;
    read_faults::Plan plan;
    plan.call = "read";
    plan.before = [&](std::size_t number) {
      if (number != 0 && !always) return;
      usleep(20'000);  // so that the time of change differs
      chmod(path.c_str(), mode ^= 0040);
    };
    read_faults::arm(plan);
    std::optional<Status> status;
    try {
      write_tensor(path.c_str(), "tensor.000001", bytes.data(), bytes.size(), false);
    } catch (const Error& error) {
      status = error.status;
    }
    read_faults::disarm();
    EXPECT_EQ(status, always ? std::optional(Status::state) : std::nullopt);
    EXPECT_EQ(read_faults::calls(), reads_of_one * (always ? 5 : 2)) << "attempts";
    EXPECT_EQ(contents(path), always ? before : with_tensor(before, 1, bytes));
  }
}

// For example a save that is about to replace it.
TEST_F(EditTest, a_tensor_is_not_written_while_another_process_locks_the_file) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files in this build";
  make({});
  const std::string before = contents(path);
  const int reader = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::string bytes(100, 'n');
  std::optional<Status> status;
  {
    const io::EditLock lock = io::EditLock::shared(reader);
    ASSERT_TRUE(lock.held());
    try {
      write_tensor(path.c_str(), "tensor.000001", bytes.data(), bytes.size(), false);
    } catch (const Error& error) {
      status = error.status;
    }
    try {
      set("note", std::string(5000, 'n'));  // by a new file
      ADD_FAILURE() << "edited";
    } catch (const Error& error) {
      EXPECT_NE(error.message.find("is locked by another process"), std::string::npos) << error.message;
    }
  }
  EXPECT_EQ(status, Status::state);
  EXPECT_EQ(contents(path), before);
  write_tensor(path.c_str(), "tensor.000001", bytes.data(), bytes.size(), false);
  EXPECT_EQ(contents(path), with_tensor(before, 1, bytes));
  close(reader);
}

// ---- readers ---------------------------------------------------------------------------------------------------------

// An open that sees half of an edit waits for the other half.
TEST_F(EditTest, an_opening_never_sees_half_of_an_edit) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  WriteOptions options;
  options.header_reserve = 100;
  make(options);
  const std::string whole = contents(path);
  const int editor = open(path.c_str(), O_RDWR);
  for (const bool through_descriptor : {false, true}) {
    std::optional<io::EditLock> lock = io::EditLock::exclusive(editor);
    ASSERT_TRUE(lock->held());
    ASSERT_EQ(pwrite(editor, R"({"__metadata__":{"for)", 21, 8 + 20), 21);
    std::string problem = "none";
    std::thread reader([&] {
      try {
        if (through_descriptor) {
          Checkpoint::open(io::file_source_of_descriptor(editor, 0, whole.size()), {});
        } else {
          Checkpoint::open(path.c_str(), {});
        }
      } catch (const Error& error) {
        problem = error.message;
      }
    });
    usleep(20'000);  // so it fails if no process waits
    ASSERT_EQ(pwrite(editor, whole.data(), whole.size(), 0), static_cast<ssize_t>(whole.size()));
    lock.reset();
    reader.join();
    EXPECT_EQ(problem, "none");
  }
  close(editor);
}

// Opens the file of `editor` with no free descriptor for a lock, and calls `edit` before each read.
CheckpointPtr open_without_locks(int editor, std::function<void(std::size_t number)> edit) {
  std::unique_ptr<io::Source> source = io::file_source_of_descriptor(editor, 0, 0);
  // UBSan needs a descriptor for its first check of a type, and none will be free.
  Checkpoint::open(io::file_source_of_descriptor(editor, 0, 0), {});
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  read_faults::Plan plan;
  plan.call = "read";
  plan.before = std::move(edit);
  read_faults::arm(plan);
  CheckpointPtr file;
  std::optional<Error> problem;
  try {
    file = Checkpoint::open(std::move(source), {});
  } catch (const Error& error) {
    problem = error;
  }
  read_faults::disarm();
  setrlimit(RLIMIT_NOFILE, &before);
  if (problem) throw Error(*problem);
  return file;
}

// Without a lock (no support, or no free descriptor), two reads must agree. Each of the first reads sees another part
// of one edit.
TEST_F(EditTest, without_locks_an_opening_reads_until_nothing_changes) {
  constexpr std::size_t kSteps = 9;
  const std::string new_note(3000, 'b');
  make({}, 3, std::string(3000, 'a'));
  const auto note_at = static_cast<off_t>(contents(path).find("aaaa"));
  const io::Descriptor editor(open(path.c_str(), O_RDWR));
  const CheckpointPtr file = open_without_locks(editor.get(), [&](std::size_t number) {
    const std::size_t done = std::min(number + 1, kSteps) * new_note.size() / kSteps;
    EXPECT_EQ(pwrite(editor.get(), new_note.data(), done, note_at), static_cast<ssize_t>(done));
  });
  EXPECT_EQ(file->metadata("note")->value, new_note);
  EXPECT_GE(read_faults::calls(), kSteps);
}

// Another program may write the length of the header last.
TEST_F(EditTest, without_locks_an_opening_rereads_an_invalid_length) {
  make({});
  const std::string length = contents(path).substr(0, 8);
  const io::Descriptor editor(open(path.c_str(), O_RDWR));
  const CheckpointPtr file = open_without_locks(editor.get(), [&](std::size_t number) {
    const std::string bytes = number == 0 ? std::string(length.size(), '\xFF') : length;
    EXPECT_EQ(pwrite(editor.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  });
  EXPECT_EQ(file->count_tensors(), 3U);
  EXPECT_GE(read_faults::calls(), 3U);
}

TEST_F(EditTest, without_locks_an_opening_gives_up_when_the_header_never_stays) {
  make({}, 3, std::string(3000, 'a'));
  const auto note_at = static_cast<off_t>(contents(path).find("aaaa"));
  const io::Descriptor editor(open(path.c_str(), O_RDWR));
  try {
    open_without_locks(editor.get(), [&](std::size_t number) {
      const char next = static_cast<char>('a' + number % 26);
      EXPECT_EQ(pwrite(editor.get(), &next, 1, note_at), 1);
    });
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.status, Status::read) << error.message;
  }
}

// Nothing is written in place that a reader could see half of.
TEST_F(EditTest, without_locks_an_edit_writes_a_new_file) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  WriteOptions options;
  options.header_reserve = 200;
  for (const bool sync : {false, true}) {
    SCOPED_TRACE(sync);
    make(options);
    const ino_t before = inode(path);
    const pid_t child = fork();
    if (child == 0) {
      if (!io::refuse_file_locks(ENOLCK)) _exit(255);
      try {
        set("note", "new", {.sync = sync});
        faults::arm({});
        set("note", "new", {.sync = sync});  // nothing to change
        _exit(std::count(faults::calls().begin(), faults::calls().end(), "fsync") == (sync ? 1 : 0) ? 0 : 2);
      } catch (const Error& error) {
        fprintf(stderr, "%s\n", error.message.c_str());
        _exit(1);
      }
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 255) GTEST_SKIP() << "this system has no filters of calls";
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(value("note"), "new");
    EXPECT_NE(inode(path), before);
    expect_tensors();
  }
}

// A process that waited for the lock of a file that was renamed over in the meantime holds a useless lock.
TEST_F(EditTest, the_lock_of_a_name_is_that_of_the_file_that_has_it_then) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  make({});
  const std::string other = (folder / "other").string();
  fs::copy_file(path, other);
  const io::Descriptor before(open(path.c_str(), O_RDWR | O_CLOEXEC));
  const io::Descriptor after(open(other.c_str(), O_RDWR | O_CLOEXEC));
  const io::Descriptor inside(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::optional<io::EditLock> first = io::EditLock::exclusive(before.get());
  ASSERT_TRUE(first->held());
  bool locked = false;
  std::thread waiting([&] {
    const io::EditLock lock = io::EditLock::of_name(inside.get(), fs::path(path).filename().string());
    struct flock seen {};
    seen.l_type = F_WRLCK;
    seen.l_whence = SEEK_SET;
    locked = lock.held() && fcntl(after.get(), F_OFD_GETLK, &seen) == 0 && seen.l_type != F_UNLCK;
  });
  usleep(20'000);  // so it opens the file that is about to be replaced
  fs::rename(other, path);
  first.reset();
  waiting.join();
  EXPECT_TRUE(locked);
}

// If two saves shared the lock of the old file, the second would rename over an edit's file without its lock.
TEST_F(EditTest, a_save_has_the_lock_of_its_target_alone) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  make({});
  const io::Descriptor other(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::optional<io::EditLock> lock = io::EditLock::shared(other.get());
  ASSERT_TRUE(lock->held());
  std::atomic<bool> given_up = false;
  std::thread holder([&] {
    usleep(200'000);  // a save without an exclusive lock would be finished by then
    given_up = true;
    lock.reset();
  });
  make({}, 4);
  EXPECT_TRUE(given_up);
  holder.join();
  expect_tensors(4);
}

// The kernel would write up to the limit, and overwrite only a part of the old header.
TEST_F(EditTest, a_limit_of_size_inside_the_header_changes_nothing) {
  make({}, 3, std::string(30, 'a'));
  const std::string before = contents(path);
  for (const bool in_place : {true, false}) {
    const rlim_t limit = in_place ? before.find("aaaa") + 3 : 4000;
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGXFSZ, in_place ? SIG_IGN : SIG_DFL);  // a new file is refused before anything is written
      const rlimit shorter{limit, RLIM_INFINITY};
      if (setrlimit(RLIMIT_FSIZE, &shorter) != 0) _exit(1);
      try {
        set("note", std::string(in_place ? 30 : 5000, 'b'));
      } catch (const Error& error) {
        _exit(error.status == Status::write && error.os_error == EFBIG ? 0 : 2);
      }
      _exit(3);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(contents(path), before);
  }
}

// ---- kills -----------------------------------------------------------------------------------------------------------

// The header is the old or the new one whenever the process is killed; 400 moments.
TEST_F(EditTest, killed_at_any_moment_leaves_a_whole_header) {
  if (!io::has_linux_io()) GTEST_SKIP() << "no locks of open files, without which nothing is edited in place";
  WriteOptions options;
  options.header_reserve = 3500;
  make(options);
  const ino_t before = inode(path);
  const std::string a(1500, 'a');
  const std::string b(3000, 'b');
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (;;) {
        set("note", a);
        set("note", b);
      }
    }
    usleep(std::uniform_int_distribution<useconds_t>(500, 2500)(random));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    const std::string now = value("note");
    ASSERT_TRUE(now == a || now == b || now == "(none)");
  }
  EXPECT_EQ(inode(path), before);
  expect_tensors();
}

}  // namespace
}  // namespace st::core::edit_test
