// After a power failure at any moment of a synced save, the target is the complete old or the complete new file. Once
// the call has returned, it is the new one.
//
// Each scenario runs once. Its changes and syncs are recorded, and repeated on a simulated disk, which loses power before
// the first change and after each one.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <utility>

#include "../io/faults.hpp"
#include "../io/system.hpp"
#include "base/error.hpp"
#include "simulated_disk.hpp"
#include "write_scenarios.hpp"

namespace st::core::power_loss_test {

namespace {

namespace fs = std::filesystem;
using faults::Change;
using faults::Plan;
using simulated_disk::Content;
using simulated_disk::Disk;
using simulated_disk::kSector;
using simulated_disk::Name;
using write_scenarios::kTarget;
using write_scenarios::Scenario;
using Changes = std::vector<Change>;
using Kind = Change::Kind;

// ---- the verdict ---------------------------------------------------------------------------------------------------

// The states that a power failure may leave before the call has returned.
enum class Before {
  old_or_new,
  both,      // each sector is old or new: a tensor written in place
  anything,  // the call begins with an unsynced file
};

struct Record {
  Disk disk;  // before the first change
  Name target;
  std::optional<Content> old_file;
  Content new_file;
  Before before = Before::old_or_new;
  std::optional<Content> meanwhile{};  // what another process has put there during the call
  Changes changes{};
};

bool is_mixed(std::string_view bytes, std::string_view a, std::string_view b) {
  if (bytes.size() != a.size() || bytes.size() != b.size()) return false;
  for (std::size_t at = 0; at < bytes.size(); at += kSector) {
    const std::string_view sector = bytes.substr(at, kSector);
    if (sector != a.substr(at, kSector) && sector != b.substr(at, kSector)) return false;
  }
  return true;
}

bool is_allowed(const Record& record, const std::optional<Content>& seen, bool returned) {
  const Content& wanted = record.new_file;
  if (returned) return seen && seen->bytes == wanted.bytes && seen->mode == wanted.mode;
  if (!seen) return !record.old_file;
  if (seen == record.meanwhile) return true;
  if (seen->bytes == wanted.bytes) return (seen->mode & ~wanted.mode) == 0;
  if (seen == record.old_file) return true;
  return record.before == Before::both && record.old_file && seen->mode == record.old_file->mode &&
         is_mixed(seen->bytes, record.old_file->bytes, wanted.bytes);
}

struct Verdict {
  std::size_t states = 0;     // tried
  std::string first_wrong{};  // the moment of the power failure; empty: none is wrong
};

// Tries `changes` instead of the changes of the record.
Verdict judge(const Record& record, const Changes& changes) {
  Verdict verdict;
  Disk disk = record.disk;
  for (std::size_t done = 0; done <= changes.size(); ++done) {
    if (done > 0) disk.apply(changes[done - 1]);
    const bool returned = done == changes.size();
    if (!returned && record.before == Before::anything) continue;
    const bool good = disk.lose_power(record.target, [&](const std::optional<Content>& seen) {
      ++verdict.states;
      return is_allowed(record, seen, returned);
    });
    if (good) continue;
    verdict.first_wrong = returned ? "after the call" : "after " + std::to_string(done) + " changes";
    break;
  }
  return verdict;
}

// ---- scenarios -----------------------------------------------------------------------------------------------------

struct Case {
  Scenario scenario;
  Before before = Before::old_or_new;
  std::string failing{};  // the call that fails the first time
  int error = 0;
};

using Run = std::function<void(const fs::path& folder)>;

Run save(unsigned seed, const WriteOptions& options) {
  return [=](const fs::path& folder) { write_scenarios::write_file(folder / kTarget, seed, options); };
}

Run edit(const std::string& note, bool sync = true) {
  return [=](const fs::path& folder) { write_scenarios::edit(folder, {sync}, note); };
}

Run write_bytes(const char* tensor, std::size_t n) {
  return [=](const fs::path& folder) {
    write_tensor((folder / kTarget).c_str(), tensor, std::string(n, 'x').data(), n, true);
  };
}

Run in_turn(const Run& first, const Run& second) {
  return [=](const fs::path& folder) {
    first(folder);
    second(folder);
  };
}

Run twice_unless_it_fails_once(const Run& run) {
  const Run first = [=](const fs::path& folder) {
    try {
      run(folder);
    } catch (const Error&) {}
  };
  return in_turn(first, run);
}

std::optional<Content> put_meanwhile;

// Another process creates the target during the call, durably and only for its owner.
void put_private_target(int folder, const char* name) {
  if (put_meanwhile || std::string_view(name) != kTarget) return;
  const int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const int parent = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_EQ(fsync(file), 0);
  EXPECT_EQ(fsync(parent), 0);
  EXPECT_EQ(close(file), 0);
  EXPECT_EQ(close(parent), 0);
  put_meanwhile = Content{"", 0600};
}

std::string target_path;

// Another process takes all rights of the group away, durably, while the new file is synced.
void narrow_target() {
  if (put_meanwhile) return;
  put_meanwhile = Content{write_scenarios::contents(target_path), 0600};
  const int file = open(target_path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(fchmod(file, 0600), 0);
  EXPECT_EQ(fsync(file), 0);
  EXPECT_EQ(close(file), 0);
}

std::vector<Case> make_cases() {
  std::vector<Case> all;
  for (const Scenario& scenario : write_scenarios::scenarios()) {
    if (scenario.synced) all.push_back({scenario});
  }
  WriteOptions roomy;
  roomy.header_reserve = 2500;
  const WriteOptions synced = write_scenarios::options(true);
  WriteOptions replacing_link = synced;
  replacing_link.create.replace_link = true;
  WriteOptions only_unchanged = synced;
  only_unchanged.create.only_unchanged = true;

  const Run nothing = [](const fs::path&) {};
  const Run old_file = save(1, roomy);
  const Run two_files = [](const fs::path& folder) {
    for (const char* const name : {kTarget, "other"}) write_scenarios::write_file(folder / name, 1, {});
  };
  const Run link = [](const fs::path& folder) {
    write_scenarios::write_file(folder / "blob", 1, {});
    fs::create_symlink("blob", folder / kTarget);
  };
  const Run copy = [=](const fs::path& folder) {
    write_scenarios::write_file(folder / kTarget, 2, synced, folder / "other");
  };
  const Run unsynced = save(3, roomy);
  const Run note = edit("a new note");
  using enum Before;
  const std::vector<Case> more{
      {{"replacing a link", true, link, save(2, replacing_link)}},
      {{"replacing only what is unchanged", true, old_file, save(2, only_unchanged)}},
      {{"copying, synced", true, two_files, copy}},
      {{"copying by hand, synced", true, two_files, copy, {.no_kernel_copies = true}}},
      {{"copying, half of it by hand, synced", true, two_files, copy, {.half_a_copy = true}}},
      {{"new, the name taken meanwhile", true, nothing, save(2, synced), {.before_link = put_private_target}}},
      {{"replacing, rights narrowed meanwhile", true, old_file, save(2, synced), {.before_sync = narrow_target}}},
      {{"new, linked, not renamed",
        true,
        nothing,
        save(2, write_scenarios::options(true, false)),
        {.no_nameless_files = true}},
       old_or_new,
       "renameat2",
       EINVAL},
      {{"edit in one page but two sectors", true, old_file, edit(std::string(700, 'n'))}},
      {{"edit in place, again after an error", true, old_file, twice_unless_it_fails_once(note)},
       old_or_new,
       "fsync",
       EIO},
      {{"replacing, again after an error", true, old_file, twice_unless_it_fails_once(save(2, synced))},
       old_or_new,
       "fsync folder",
       EIO},
      {{"replacing a file just saved", true, old_file, in_turn(unsynced, save(2, synced))}, anything},
      {{"edit of a file just saved", true, nothing, in_turn(unsynced, note)}, anything},
      {{"edit without a change of a file just saved", true, nothing,
        in_turn(in_turn(unsynced, edit("a new note", false)), note)},
       anything},
      {{"tensor of a file just saved", true, nothing, in_turn(unsynced, write_bytes("a", 100))}, anything},
      {{"small tensor", true, old_file, write_bytes("a", 100)}, both},
      {{"big tensor", true, old_file, write_bytes("b", 3 << 16)}, both},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Built once, because every test process lists the names of all tests.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = make_cases();
  return all;
}

struct stat status_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0);
  return status;
}

Name name_of(const fs::path& path) { return {status_of(path.parent_path()).st_ino, path.filename()}; }

// The bytes of a symbolic link are the path that it leads to.
std::map<fs::path, Content> files_in(const fs::path& folder) {
  std::map<fs::path, Content> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    const fs::path path = entry.path();
    const std::string bytes = entry.is_symlink() ? fs::read_symlink(path).string() : write_scenarios::contents(path);
    found[path] = {bytes, status_of(path).st_mode & 07777U};
  }
  return found;
}

class PowerLoss : public testing::TestWithParam<std::size_t> {
 protected:
  PowerLoss() : case_(cases()[GetParam()]) {}
  ~PowerLoss() override { fs::remove_all(base_); }

  Record record() {
    Plan plan = case_.scenario.kernel;
    plan.record_changes = true;
    if (!case_.failing.empty()) {
      plan.at = place_of_failing_call();
      plan.action = faults::Action::fail;
      plan.error = case_.error;
    }
    prepare();
    Record record;
    const auto before = files_in(folder_);
    for (const auto& [path, content] : before) record.disk.add(name_of(path), status_of(path).st_ino, content);
    put_meanwhile.reset();
    run(plan);
    record.meanwhile = std::exchange(put_meanwhile, std::nullopt);
    EXPECT_EQ(record.meanwhile.has_value(), plan.before_link != nullptr || plan.before_sync != nullptr);
    record.changes = faults::changes();
    const auto after = files_in(folder_);
    const fs::path written = fs::canonical(folder_ / kTarget);  // a link is followed, unless it was replaced
    record.target = name_of(written);
    if (before.contains(written)) record.old_file = before.at(written);
    record.new_file = after.at(written);
    EXPECT_TRUE(!record.meanwhile || record.new_file.mode == record.meanwhile->mode);
    record.before = case_.before;
    expect_all_recorded(record, after);
    return record;
  }

 private:
  // An old file is not for all users, so the new file must not be either.
  void prepare() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    case_.scenario.prepare(folder_);
    if (fs::exists(folder_ / kTarget)) fs::permissions(folder_ / kTarget, fs::perms(0640));
  }

  void run(const Plan& plan) {
    target_path = folder_ / kTarget;
    faults::arm(plan);
    case_.scenario.run(folder_);
    faults::disarm();
  }

  std::size_t place_of_failing_call() {
    prepare();
    run(case_.scenario.kernel);
    const auto& calls = faults::calls();
    const auto found = std::find(calls.begin(), calls.end(), case_.failing);
    EXPECT_TRUE(found != calls.end() || !io::has_linux_io()) << case_.failing;
    return static_cast<std::size_t>(found - calls.begin());
  }

  static void expect_all_recorded(const Record& record, const std::map<fs::path, Content>& after) {
    Disk disk = record.disk;
    for (const Change& change : record.changes) disk.apply(change);
    const auto now = disk.now();
    EXPECT_EQ(now.size(), after.size());
    for (const auto& [path, content] : after) {
      const auto found = now.find(name_of(path));
      ASSERT_TRUE(found != now.end()) << path;
      EXPECT_TRUE(found->second.bytes == content.bytes) << path;
      EXPECT_EQ(found->second.mode, content.mode) << path;
    }
  }

  const Case case_;
  const fs::path base_ = testing::TempDir() + "power_loss" + std::to_string(getpid());
  const fs::path folder_ = base_ / "work";
};

INSTANTIATE_TEST_SUITE_P(Scenarios, PowerLoss, testing::Range(std::size_t{0}, cases().size()), [](const auto& number) {
  std::string name = cases()[number.param].scenario.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == ','; }, '_');
  return name;
});

TEST_P(PowerLoss, leaves_the_old_file_or_the_new_one) {
  const Record made = record();
  ASSERT_FALSE(HasFailure());
  const Verdict verdict = judge(made, made.changes);
  EXPECT_EQ(verdict.first_wrong, "");
  RecordProperty("states", std::to_string(verdict.states));
  std::cout << made.changes.size() << " changes and syncs, " << verdict.states << " states of the disk\n";
}

// The same changes without their syncs, or with the name first, are noticed.
TEST_P(PowerLoss, is_survived_because_of_the_syncs) {
  const Record made = record();
  ASSERT_FALSE(HasFailure());
  const auto is_sync_of = [&](bool folder) {
    return [folder, number = made.target.folder](const Change& change) {
      return change.kind == Kind::sync && (change.inode == number) == folder;
    };
  };
  const auto is_new_name = [&](const Change& change) {
    return change.kind == Kind::name && Name{change.folder, change.name} == made.target;
  };
  Changes unsynced = made.changes;
  std::erase_if(unsynced, is_sync_of(false));
  EXPECT_NE(judge(made, unsynced).first_wrong, "");

  Changes without_last_sync = made.changes;
  const auto last_sync = std::find_if(without_last_sync.rbegin(), without_last_sync.rend(), is_sync_of(false));
  without_last_sync.erase(std::prev(last_sync.base()));
  EXPECT_NE(judge(made, without_last_sync).first_wrong, "");

  const bool renames = std::any_of(made.changes.begin(), made.changes.end(), is_new_name);
  if (!renames) return;
  Changes without_folder = made.changes;
  std::erase_if(without_folder, is_sync_of(true));
  EXPECT_EQ(judge(made, without_folder).first_wrong, "after the call");

  if (made.before == Before::anything) return;
  Changes name_first = unsynced;
  const auto named = std::find_if(name_first.rbegin(), name_first.rend(), is_new_name).base();
  Changes syncs;
  std::copy_if(made.changes.begin(), made.changes.end(), std::back_inserter(syncs), is_sync_of(false));
  name_first.insert(named, syncs.begin(), syncs.end());
  EXPECT_NE(judge(made, name_first).first_wrong, "");
}

// ---- the simulated disk --------------------------------------------------------------------------------------------

constexpr std::uint64_t kFolder = 1;
constexpr std::uint64_t kOld = 2;
constexpr std::uint64_t kNew = 3;

Change create() { return {Kind::create, kNew, 0, {}, 0, {}, 0600}; }
Change bytes(std::uint64_t inode, std::uint64_t offset, std::size_t n) {
  return {Kind::bytes, inode, 0, {}, offset, std::string(n, 'n'), 0};
}
Change size(std::uint64_t n) { return {Kind::size, kNew, 0, {}, 0, {}, n}; }
Change mode() { return {Kind::mode, kNew, 0, {}, 0, {}, 0640}; }
Change name() { return {Kind::name, kNew, kFolder, "model", 0, {}, 0}; }
Change sync(std::uint64_t inode) { return {Kind::sync, inode, 0, {}, 0, {}, 0}; }
Change failed_sync(std::uint64_t inode) { return {Kind::failed_sync, inode, 0, {}, 0, {}, 0}; }

TEST(SimulatedDisk, notices_each_mistake) {
  const std::size_t n = 1000;  // two sectors
  const std::string old_bytes(n, 'o');
  const std::string new_bytes(n, 'n');
  const std::string edited = std::string(300, 'n') + old_bytes.substr(300);
  const std::string edited_twice = old_bytes.substr(0, 500) + std::string(100, 'n') + old_bytes.substr(600);
  const struct {
    const char* what;
    std::string new_bytes;
    Changes changes;
    const char* first_wrong;
    std::size_t states;
  } kRows[] = {
      {"a save", new_bytes, {create(), bytes(kNew, 0, n), mode(), sync(kNew), name(), sync(kFolder)}, "", 8},
      {"no sync of the file",
       new_bytes,
       {create(), bytes(kNew, 0, n), mode(), name(), sync(kFolder)},
       "after 4 changes",
       6},
      {"no sync of the folder",
       new_bytes,
       {create(), bytes(kNew, 0, n), mode(), sync(kNew), name()},
       "after the call",
       6},
      {"a sync of another folder",
       new_bytes,
       {create(), bytes(kNew, 0, n), mode(), sync(kNew), name(), sync(99)},
       "after the call",
       8},
      {"the name before the sync",
       new_bytes,
       {create(), bytes(kNew, 0, n), mode(), name(), sync(kNew)},
       "after 4 changes",
       6},
      {"a sync of the size only",
       new_bytes,
       {create(), size(n), mode(), sync(kNew), bytes(kNew, 0, n), name(), sync(kFolder)},
       "after 6 changes",
       8},
      {"a mode after the sync",
       new_bytes,
       {create(), bytes(kNew, 0, n), sync(kNew), mode(), name(), sync(kFolder)},
       "after the call",
       9},
      {"an edit", edited, {bytes(kOld, 0, 300), sync(kOld)}, "", 4},
      {"an edit in two sectors", edited_twice, {bytes(kOld, 500, 100), sync(kOld)}, "after 1 changes", 3},
      {"a sync after a failed one", edited, {bytes(kOld, 0, 300), failed_sync(kOld), sync(kOld)}, "after the call", 6},
      {"a sync of bytes written again",
       edited,
       {bytes(kOld, 0, 300), failed_sync(kOld), bytes(kOld, 0, 300), sync(kOld)},
       "",
       8},
      {"a sync of bytes written again, but not of the size",
       new_bytes,
       {create(), bytes(kNew, 0, n), failed_sync(kNew), bytes(kNew, 0, n), mode(), sync(kNew), name(), sync(kFolder)},
       "after 7 changes",
       9},
  };
  for (const auto& row : kRows) {
    Record record{{}, {kFolder, "model"}, Content{old_bytes, 0640}, {row.new_bytes, 0640}};
    record.disk.add(record.target, kOld, *record.old_file);
    const Verdict verdict = judge(record, row.changes);
    EXPECT_EQ(verdict.first_wrong, row.first_wrong) << row.what;
    EXPECT_EQ(verdict.states, row.states) << row.what;
  }
}

}  // namespace
}  // namespace st::core::power_loss_test
