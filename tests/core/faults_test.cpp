// Whichever call fails, and whenever the process dies, the target is the complete old or the complete new file.
//
// Each scenario first runs to record its system calls, and then once for each call and each fault. After a reported
// failure, no other file may remain next to the target. After a kill, the next writer must succeed and leave no other
// file either.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "../io/faults.hpp"
#include "../io/system.hpp"
#include "base/error.hpp"
#include "write_scenarios.hpp"

namespace {

namespace fs = std::filesystem;
using faults::Action;
using faults::Plan;
using st::core::write_scenarios::contents;
using st::core::write_scenarios::kTarget;
using st::core::write_scenarios::Scenario;
using st::core::write_scenarios::scenarios;

const std::map<std::string, std::vector<int>> kErrors{
    {"open nameless", {EOPNOTSUPP, EISDIR, ENOSPC, EMFILE, EACCES, EIO}},
    {"create", {ENOSPC, EDQUOT, EACCES, EROFS, EMFILE, EIO}},
    {"pwrite", {ENOSPC, EDQUOT, EIO, EFBIG, EINTR}},
    {"copy_file_range", {EXDEV, ENOSYS, EINVAL, EOPNOTSUPP, EPERM, EIO, ENOSPC, EINTR}},
    {"ftruncate", {EIO, ENOSPC, EFBIG, EPERM, EINTR}},
    {"fallocate", {EOPNOTSUPP, ENOSYS, ENOSPC, EDQUOT, EIO, EINTR}},
    {"fsync", {EIO, ENOSPC, EDQUOT, EINTR}},
    {"fsync folder", {EIO, ENOSPC, EDQUOT, EINTR}},
    {"close", {EIO, ENOSPC, EDQUOT, EINTR}},
    {"close written", {EIO, ENOSPC, EDQUOT, EINTR}},
    {"linkat", {EIO, ENOSPC, EEXIST, EACCES, ENOENT, EPERM}},
    {"renameat", {EIO, ENOSPC, EACCES, EPERM, EXDEV, EROFS}},
    {"renameat2", {EIO, EINVAL, ENOSYS, EEXIST, ENOSPC}},
    {"unlinkat", {EACCES, EIO}},
    {"fchmod", {EPERM, EIO}},
    {"fchown", {EPERM}},
    {"flock", {ENOLCK, EOPNOTSUPP}},
    {"sync_file_range", {EIO, ENOSPC, EINVAL}},
};

// If these fail, the save must fail. Other calls have a fallback or do not matter.
bool must_be_reported(const std::string& call, int error) {
  if (error == EINTR) return false;
  const bool of_disk = error == EIO || error == ENOSPC || error == EDQUOT;
  if (call == "fallocate" || call == "linkat" || call == "renameat2") return of_disk;
  return call == "pwrite" || call == "ftruncate" || call.starts_with("fsync") || call == "renameat" ||
         call == "create" || call == "fchmod";
}

enum Exit { kDone = 0, kReported = 3, kNewInPlace = 4 };

int child(const Scenario& scenario, const fs::path& folder, const Plan& plan,
          std::vector<std::string>* calls = nullptr) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t pid = fork();
  if (pid == 0) {
    int code = kDone;
    faults::arm(plan);
    try {
      scenario.run(folder);
    } catch (const st::Error& error) {
      const auto says = [&](const char* words) { return error.message.find(words) != std::string::npos; };
      code = says("and in place") || says("new header was written") ? kNewInPlace : kReported;
    }
    faults::disarm();
    for (const std::string& call : faults::calls()) {
      const std::string line = call + '\n';
      if (calls != nullptr && write(ends[1], line.data(), line.size()) < 0) _exit(9);
    }
    _exit(code);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (calls != nullptr) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) calls->push_back(line);
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::set<std::string> names(const fs::path& folder) {
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    found.insert(entry.path().lexically_relative(folder));
  return found;
}

class Trial {
 public:
  explicit Trial(const Scenario& scenario) : scenario_(scenario) {
    const std::string base = testing::TempDir() + "faults" + std::to_string(getpid());
    folder_ = base + "/work";
    fs::create_directories(folder_);
    fresh();
    names_before_ = names(folder_);
    old_ = contents(folder_ / kTarget);
    EXPECT_EQ(child(scenario_, folder_, scenario_.kernel, &calls_), kDone);
    new_ = contents(folder_ / kTarget);
    names_after_ = names(folder_);
    EXPECT_TRUE(old_ != new_);
  }
  ~Trial() { fs::remove_all(folder_.parent_path()); }

  const std::vector<std::string>& calls() const { return calls_; }

  int run_with(std::size_t at, Action action, int error) {
    fresh();
    Plan plan = scenario_.kernel;
    plan.at = at;
    plan.action = action;
    plan.error = error;
    return child(scenario_, folder_, plan);
  }

  void expect_whole(std::size_t at, Action action, int error) {
    SCOPED_TRACE(scenario_.name + ": call " + std::to_string(at) + ", " + calls_[at] + ", action " +
                 std::to_string(static_cast<int>(action)) + ", errno " + std::to_string(error));
    const int result = run_with(at, action, error);
    const std::string now = contents(folder_ / kTarget);
    const auto beside = names(folder_);
    if (action == Action::kill_before || action == Action::kill_after) {
      ASSERT_EQ(result, -SIGKILL);
      ASSERT_TRUE(now == old_ || now == new_) << now.size() << " bytes";
      expect_next_writer_succeeds();
      return;
    }
    if (result == kDone) {
      ASSERT_FALSE(action == Action::fail && must_be_reported(calls_[at], error));
      ASSERT_TRUE(now == new_);
    } else if (result == kNewInPlace) {
      ASSERT_TRUE(calls_[at].starts_with("fsync") || calls_[at].starts_with("close"));
      ASSERT_TRUE(now == new_);
    } else {
      ASSERT_EQ(result, kReported);
      ASSERT_NE(error, EINTR);
      ASSERT_NE(action, Action::cut_short);
      ASSERT_TRUE(now == old_);
    }
    // A temporary file may remain if removing it is the call that failed.
    if (calls_[at] == "unlinkat") return;
    ASSERT_EQ(beside, now == old_ ? names_before_ : names_after_);
  }

 private:
  void fresh() {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    scenario_.prepare(folder_);
  }

  void expect_next_writer_succeeds() {
    if (scenario_.name.find("not replacing") != std::string::npos && contents(folder_ / kTarget) == new_) return;
    ASSERT_EQ(child(scenario_, folder_, scenario_.kernel), kDone);
    ASSERT_TRUE(contents(folder_ / kTarget) == new_);
    ASSERT_EQ(names(folder_), names_after_);
  }

  const Scenario scenario_;
  fs::path folder_;
  std::vector<std::string> calls_;
  std::string old_;
  std::string new_;
  std::set<std::string> names_before_;
  std::set<std::string> names_after_;
};

bool brings_bytes(const std::string& call) { return call == "pwrite" || call == "copy_file_range"; }
bool gives_a_name(const std::string& call) { return call == "linkat" || call.starts_with("renameat"); }

class Faults : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Scenarios, Faults, testing::Range(std::size_t{0}, scenarios().size()), [](const auto& number) {
  std::string name = scenarios()[number.param].name;
  for (char& c : name) c = c == ' ' || c == ',' ? '_' : c;
  return name;
});

TEST_P(Faults, leave_the_old_file_or_the_new_one) {
  const Scenario scenario = scenarios()[GetParam()];
  Trial trial(scenario);
  ASSERT_FALSE(HasFailure());
  for (std::size_t at = 0; at < trial.calls().size(); ++at) {
    const std::string& call = trial.calls()[at];
    ASSERT_TRUE(kErrors.contains(call)) << call;
    for (const int error : kErrors.at(call)) trial.expect_whole(at, Action::fail, error);
    if (call == "pwrite" || call == "copy_file_range") trial.expect_whole(at, Action::cut_short, 0);
    for (const Action kill : {Action::kill_before, Action::kill_after}) trial.expect_whole(at, kill, 0);
    if (HasFatalFailure()) return;
  }
}

// The bytes are synced before the rename, and the rename before the save returns.
TEST_P(Faults, a_synced_save_syncs_its_bytes_before_the_name_and_its_folder_after) {
  const Scenario scenario = scenarios()[GetParam()];
  const Trial trial(scenario);
  const auto& calls = trial.calls();
  const auto is_sync = [](const std::string& call) { return call.starts_with("fsync"); };
  ASSERT_EQ(std::any_of(calls.begin(), calls.end(), is_sync), scenario.synced);
  if (!scenario.synced) return;
  const auto named = std::find_if(calls.begin(), calls.end(), gives_a_name);
  const auto written = std::find_if(std::make_reverse_iterator(named), calls.rend(), brings_bytes).base();
  EXPECT_EQ(std::count(written, named, "fsync"), 1);
  if (named == calls.end()) return;  // an edit in place
  const auto last = std::find_if(calls.rbegin(), calls.rend(), gives_a_name).base();
  EXPECT_NE(std::find(last, calls.end(), "fsync folder"), calls.end());
}

// Network filesystems report a full disk only at close. After the rename, a close is too late to report an error.
TEST_P(Faults, an_error_of_closing_what_was_written_is_reported) {
  Trial trial(scenarios()[GetParam()]);
  const std::vector<std::string> calls = trial.calls();
  const auto written = std::find_if(calls.rbegin(), calls.rend(), brings_bytes).base();
  const auto named = std::find_if(written, calls.end(), gives_a_name);
  bool reported = false;  // at one of them: a file that was only read may be closed without a check
  for (auto closed = written; (closed = std::find(closed, named, "close written")) != named; ++closed) {
    const auto at = static_cast<std::size_t>(closed - calls.begin());
    reported |= trial.run_with(at, Action::fail, EIO) != kDone;
    EXPECT_EQ(trial.run_with(at, Action::fail, EINTR), kDone);
  }
  EXPECT_TRUE(reported);
}

// Space is allocated in advance, unless the kernel may share blocks; and the kernel copies if it can.
TEST_P(Faults, space_is_asked_for_and_copies_are_left_to_the_kernel) {
  if (!st::io::has_linux_io()) GTEST_SKIP() << "no copies in the kernel in this build";
  const Scenario scenario = scenarios()[GetParam()];
  const Trial trial(scenario);
  const auto& calls = trial.calls();
  const bool saved_over = scenario.kernel.no_links;  // space was allocated, and then the kernel copies everything
  const bool copies = scenario.name.starts_with("copying") || scenario.name.starts_with("edit by new file");
  const auto space = std::find(calls.begin(), calls.end(), "fallocate");
  const auto written = std::find(calls.begin(), calls.end(), "pwrite");
  const bool in_place = scenario.name.starts_with("edit in place");
  EXPECT_EQ(space != calls.end(), !copies && !in_place);
  EXPECT_TRUE(space == calls.end() || space < written);
  const bool by_kernel = (copies || saved_over) && !scenario.kernel.no_kernel_copies;
  EXPECT_EQ(std::find(calls.begin(), calls.end(), "copy_file_range") != calls.end(), by_kernel);
}

}  // namespace
