// Shards that are links, shards that are not regular files, and names that Windows does not have.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "../io/faults.hpp"
#include "../io/files.hpp"
#include "../io/read_faults.hpp"
#include "../io/system.hpp"
#include "core/check.hpp"
#include "core/open_shards.hpp"
#include "shards.hpp"

namespace st::core::shard_paths_test {
namespace {

class ShardPathsTest : public ShardsTest {};

TEST_F(ShardPathsTest, ThatAnIndexMayNotNameAreRefused) {
  std::string twice;
  for (int i = 10; i < 90; ++i) twice += formatted(R"({}"{}":"s{}","./{}":"./s{}")", i == 10 ? "" : ",", i, i, i, i);
  const BadIndex cases[] = {
      {"one shard under two names", mapping("./model-00001-of-00002.safetensors"), Status::shard,
       "'model-00001-of-00002.safetensors' and './model-00001-of-00002.safetensors' are the same file"},
      {"another name between the two", mapping("./model-00002-of-00002.safetensors"), Status::shard,
       "'model-00002-of-00002.safetensors' and './model-00002-of-00002.safetensors' are the same file"},
      {"a slash at the end", mapping("model-00001-of-00002.safetensors/"), Status::shard, "are the same file"},
      {"a dot at the end", mapping("model-00001-of-00002.safetensors/."), Status::shard, "are the same file"},
      {"only names with dots", R"({"weight_map":{"a":"x/./y","b":"x/././y"}})", Status::shard,
       "'x/./y' and 'x/././y' are the same file"},
      {"only names with slashes", R"({"weight_map":{"a":"x//y","b":"x///y"}})", Status::shard,
       "'x//y' and 'x///y' are the same file"},
      {"many shards under two names", "{\"weight_map\":{" + twice + "}}", Status::shard,
       "'s10' and './s10' are the same file"},
      {"a name of 70000 bytes", mapping(std::string(70000, 'a')), Status::open, "shard 'aaaa"},
      {"a name of 70000 folders", mapping(std::string(140000, '/').insert(0, "a")), Status::open, "shard 'a///"},
      {"a terminal's escapes in a name", mapping("\\u001b[2J\\n"), Status::shard, R"('\x1b[2J\x0a' is missing)"},
      {"the folder", mapping("."), Status::open, "is a directory"},
      {"link out of the folder", mapping("link.safetensors"), Status::shard, "is a link that leaves the directory"},
      {"link to a folder of a longer name", mapping("beside.safetensors"), Status::shard,
       "is a link that leaves the directory"},
      {"folder link out", mapping("elsewhere/outside.safetensors"), Status::shard,
       "is a link that leaves the directory"},
      {"FIFO as shard", mapping("pipe.safetensors"), Status::open, "is a named pipe"},
  };
  put("../outside.safetensors", model(entry("a", 0), 4, 'z'));
  fs::create_symlink("../outside.safetensors", folder / "link.safetensors");
  fs::create_directory_symlink("..", folder / "elsewhere");
  fs::create_directory(root / "model-of-another");  // begins with the directory's name, but is not in it
  fs::copy_file(root / "outside.safetensors", root / "model-of-another" / "outside.safetensors");
  fs::create_symlink("../model-of-another/outside.safetensors", folder / "beside.safetensors");
  ASSERT_EQ(mkfifo((folder / "pipe.safetensors").c_str(), 0600), 0);
  for (const BadIndex& bad : cases) expect_refused(bad);
}

TEST_F(ShardPathsTest, ThatTheIndexDoesNotNameDoNoHarm) {
  put("model.safetensors.index.json", kGood);
  ASSERT_EQ(mkfifo((folder / "model-00003-of-00002.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(open(index())->count_shards(), 2U);
  EXPECT_EQ(open(folder)->count_shards(), 2U);
}

TEST_F(ShardPathsTest, MayLieInAFolderThatCannotBeListed) {
  if (geteuid() != 0) GTEST_SKIP() << "root lists every folder";
  if (!io::has_linux_io()) GTEST_SKIP() << "Linux has no O_SEARCH, which POSIX has for such folders";
  put("model.safetensors.index.json", kGood);
  ASSERT_EQ(chmod(root.c_str(), 0711) | chmod(folder.c_str(), 0711), 0);
  const int shards = io::as_user(12345, 12345, [&] { return static_cast<int>(open(index())->count_shards()); });
  EXPECT_EQ(shards, 2);
  EXPECT_EQ(io::as_user(12345, 12345, [&] { return error_of(folder).os_error; }), EACCES);
}

// Windows rejects such a name.
TEST_F(ShardPathsTest, MayHaveALongSpelling) {
  put("model.safetensors.index.json",
      mapping("model-00001-of-00002.safetensors", ".//./model-00002-of-00002.safetensors"));
  EXPECT_EQ(open(index())->count_tensors(), 3U);
}

// A save of a model replaces one shard after the other.
TEST_F(ShardPathsTest, ThatAreReplacedWhileTheModelIsOpenedAreRefused) {
  put("model.safetensors.index.json", kGood);
  put("new", model(entry("a", 0) + entry("b", 4), 8, 'n'));
  static fs::path of_model;
  of_model = folder;
  faults::Plan plan;
  plan.before_open = [](const char* name, int) {
    if (std::string_view(name) == "model-00002-of-00002.safetensors" && fs::exists(of_model / "new"))
      fs::rename(of_model / "new", of_model / "model-00001-of-00002.safetensors");
  };
  OpenOptions options;
  options.threads = 1;
  faults::arm(plan);
  const Error error = error_of(index(), options);
  faults::disarm();
  EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(Status::shard));
  EXPECT_EQ(error.os_error, EAGAIN);
  EXPECT_EQ(error.message, "shard 'model-00001-of-00002.safetensors' was replaced while the model was being opened");
  EXPECT_EQ(open(index(), options)->count_shards(), 2U);
}

// The model's directory does not change when the target of a link or a file in another directory is replaced.
TEST_F(ShardPathsTest, ThatAreReplacedInAnotherDirectoryAreRefused) {
  static fs::path below;
  below = folder / "below";
  fs::create_directory(below);
  fs::rename(folder / "model-00001-of-00002.safetensors", below / "first");
  fs::create_symlink("below/first", folder / "model-00001-of-00002.safetensors");
  faults::Plan plan;
  plan.before_open = [](const char* name, int) {
    if (std::string_view(name) == "model-00002-of-00002.safetensors" && fs::exists(below / "new"))
      fs::rename(below / "new", below / "first");
  };
  OpenOptions options;
  options.threads = 1;
  const fs::path named = folder / "another.safetensors.index.json";  // so only the shards that it names are opened
  for (const char* const first : {"model-00001-of-00002.safetensors", "below/first"}) {
    put(named.filename().string(),
        formatted(R"({{"weight_map":{{"a":"{}","c":"model-00002-of-00002.safetensors"}}}})", first));
    put("below/new", model(entry("a", 0) + entry("b", 4), 8, 'n'));
    faults::set_clock(60);  // the directory has not changed lately
    faults::arm(plan);
    const Error error = error_of(named, options);
    faults::disarm();
    faults::set_clock(0);
    EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(Status::shard)) << first;
    EXPECT_EQ(error.os_error, EAGAIN) << first;
    EXPECT_EQ(open(named, options)->count_shards(), 2U) << first;
  }
}

TEST_F(ShardPathsTest, ThatAreRemovedWhileTheModelIsOpenedAreMissing) {
  put("model.safetensors.index.json", kGood);
  static fs::path of_model;
  of_model = folder;
  faults::Plan plan;
  plan.before_open = [](const char* name, int) {
    if (std::string_view(name) == "model-00002-of-00002.safetensors")
      fs::remove(of_model / "model-00001-of-00002.safetensors");
  };
  OpenOptions options;
  options.threads = 1;
  faults::arm(plan);
  const Error error = error_of(index(), options);
  faults::disarm();
  EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(Status::shard));
  EXPECT_EQ(error.os_error, ENOENT);
  EXPECT_NE(error.message.find("shard 'model-00001-of-00002.safetensors' is missing"), std::string::npos);
}

// On a slow mount, a second lookup of each shard takes as long as everything else.
TEST_F(ShardPathsTest, AreLookedUpAgainOnlyIfTheirDirectoryChangedLately) {
  put("model.safetensors.index.json", kGood);
  const auto lookups = [&] {
    read_faults::arm({"stat"});
    open(index());
    const std::size_t calls = read_faults::calls();
    read_faults::disarm();
    return calls;
  };
  const std::size_t of_new_directory = lookups();
  faults::set_clock(60);
  const std::size_t of_old_directory = lookups();
  faults::set_clock(0);
  EXPECT_EQ(of_new_directory - of_old_directory, 2U);
}

TEST_F(ShardPathsTest, TwoLinksToOneFileAreNotTwoShards) {
  const fs::path first = folder / "model-00001-of-00002.safetensors";
  const fs::path other = folder / "other.safetensors";
  put("model.safetensors.index.json", mapping("other.safetensors"));
  for (const bool hard : {false, true}) {
    hard ? fs::create_hard_link(first, other) : fs::create_symlink(first.filename(), other);
    const std::string expected =
        formatted("shards {} and {} are the same file", in_quotes(first.string()), in_quotes(other.string()));
    for (const unsigned threads : {1U, 4U}) {
      OpenOptions options;
      options.threads = threads;
      const Error error = error_of(index(), options);
      EXPECT_EQ(error.status, Status::shard);
      EXPECT_EQ(error.message, expected);
    }
    const Report report = check(index().c_str(), {});
    const auto error = std::ranges::find_if(report, [](const auto& finding) { return !finding.is_note; });
    ASSERT_NE(error, report.end());
    EXPECT_EQ(*error->path, index());
    EXPECT_EQ(error->fault.message, expected);
    fs::remove(other);
  }
}

// A model hub's cache stores equal files once.
TEST_F(ShardPathsTest, EqualShardsWithoutTensorsAreNotOneFile) {
  const fs::path snapshot = root / "models--x" / "snapshots" / "0123";
  fs::create_directories(snapshot);
  fs::create_directories(root / "models--x" / "blobs");
  put("../models--x/blobs/full", model(entry("a", 0), 4, 'x'));
  put("../models--x/blobs/empty", format::file_front("{}"));
  const auto link = [&](const char* blob, int number) {
    fs::create_symlink(fs::path("../../blobs") / blob, snapshot / formatted("model-{}-of-3.safetensors", number));
  };
  link("full", 1);
  link("empty", 2);
  link("empty", 3);
  EXPECT_EQ(open(snapshot)->count_shards(), 3U);
  for (const Finding& finding : check(snapshot.c_str(), {})) EXPECT_TRUE(finding.is_note) << finding.fault.message;
}

TEST_F(ShardPathsTest, FilesWithoutANumberAreNotOneFile) {
  io::Identity none;
  none.size = 5;
  io::Identity one = none;
  one.inode = 7;
  io::Identity later = one;
  later.modified[0] = 3;
  const std::optional<io::Identity> different[] = {none, none, std::nullopt, std::nullopt, one, later};
  EXPECT_FALSE(find_same_file(different));
  io::Identity other = one;
  other.inode = 8;
  io::Identity before = one;
  before.inode = 6;
  const std::optional<io::Identity> shards[] = {one, other, std::nullopt, later, other, before, before};
  const std::optional<SameFile> same = find_same_file(shards);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->first, 1U);
  EXPECT_EQ(same->second, 4U);
}

TEST_F(ShardPathsTest, LinksStayInsideOrLeadToTheCache) {
  const std::string index_text = mapping("model-00001-of-00002.safetensors");
  put("model.safetensors.index.json", index_text);
  fs::rename(folder / "model-00001-of-00002.safetensors", folder / "real.safetensors");
  fs::create_symlink("real.safetensors", folder / "model-00001-of-00002.safetensors");
  fs::rename(index(), root / "chosen.json");  // the caller names the index, so it may be anywhere
  fs::create_symlink("../chosen.json", index());
  EXPECT_EQ(open(folder)->count_tensors(), 3U);
  for (const Finding& finding : check(folder.c_str(), {})) EXPECT_TRUE(finding.is_note) << finding.fault.message;

  const fs::path cache = root / "models--x";
  const fs::path snapshot = cache / "snapshots" / "0123";
  fs::create_directories(snapshot);
  fs::create_directories(cache / "blobs");
  for (const char* const name :
       {"real.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"}) {
    fs::copy_file(folder / name, cache / "blobs" / name);
  }
  fs::create_symlink("../../blobs/model.safetensors.index.json", snapshot / "model.safetensors.index.json");
  fs::create_symlink("../../blobs/real.safetensors", snapshot / "model-00001-of-00002.safetensors");
  fs::create_symlink("../../blobs/model-00002-of-00002.safetensors", snapshot / "model-00002-of-00002.safetensors");
  EXPECT_EQ(open(snapshot)->count_tensors(), 3U);

  fs::rename(folder / "real.safetensors", root / "real.safetensors");
  fs::remove(folder / "model-00001-of-00002.safetensors");
  fs::create_symlink("../real.safetensors", folder / "model-00001-of-00002.safetensors");
  EXPECT_EQ(error_of(folder).status, Status::shard);
  OpenOptions asked;
  asked.follow_links = true;
  EXPECT_EQ(open(folder, asked)->count_tensors(), 3U);
}

TEST_F(ShardPathsTest, TheOnlyFileOfADirectoryIsCheckedAsItIsOpened) {
  const fs::path directory = folder / "one";
  fs::create_directory(directory);
  fs::create_symlink("../model-00002-of-00002.safetensors", directory / "model.safetensors");
  EXPECT_EQ(open(directory)->count_tensors(), 1U);
  for (const Finding& finding : check(directory.c_str(), {})) EXPECT_TRUE(finding.is_note) << finding.fault.message;
}

TEST_F(ShardPathsTest, AReportOfManyFaultyShardsIsBounded) {
  constexpr std::size_t kShards = 15;
  std::string faults = "{";
  for (int i = 0; i < 1200; ++i) faults += formatted(R"({}"t{}":0)", i == 0 ? "" : ",", i);
  const std::string bytes = format::file_front(faults + "}");
  std::string map;
  for (std::size_t i = 0; i < kShards; ++i) {
    put(formatted("faulty{}.safetensors", i), bytes);
    map += formatted(R"({}"t{}":"faulty{}.safetensors")", i == 0 ? "" : ",", i, i);
  }
  put("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const Report report = check(index().c_str(), {});
  EXPECT_LT(report.size(), 12'000U);
  EXPECT_EQ(*report.back().path, index());
  EXPECT_TRUE(report.back().fault.message.ends_with("were not checked")) << report.back().fault.message;
}

TEST_F(ShardPathsTest, ACheckKeepsNoShardOpen) {
  constexpr std::size_t kShards = 200;  // every other one is faulty
  std::string map;
  for (std::size_t i = 0; i < kShards; ++i) {
    put(formatted("many{}.safetensors", i), i % 2 == 0 ? "faulty" : model(entry(formatted("t{}", i), 0), 4, 'x'));
    map += formatted(R"({}"t{}":"many{}.safetensors")", i == 0 ? "" : ",", i, i);
  }
  put("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const int lowest_free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(lowest_free);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(lowest_free) + kShards / 4;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Report report = check(index().c_str(), {});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const Finding& finding : report) EXPECT_NE(finding.fault.status, Status::open) << finding.fault.message;
}

TEST_F(ShardPathsTest, LinksToNeighboursWithALikeNameLeaveTheFolder) {
  const fs::path cache = root / "models--x";
  const fs::path snapshot = cache / "snapshots" / "0123";
  const char* const shard = "model-00001-of-00002.safetensors";
  const std::string index_text = mapping(shard);
  put("model.safetensors.index.json", index_text);
  fs::create_directories(snapshot.parent_path());
  fs::copy(folder, snapshot);
  const fs::path outside[] = {root / "model2" / "s", root / "modelx", root / "m", cache / "blobs2" / "s", cache / "b"};
  for (const fs::path& target : outside) {
    fs::create_directories(target.parent_path());
    fs::copy_file(folder / "model-00002-of-00002.safetensors", target, fs::copy_options::overwrite_existing);
    for (const fs::path& linking : {folder, snapshot}) {
      fs::remove(linking / shard);
      fs::create_symlink(target, linking / shard);
      const Error error = error_of(linking);
      EXPECT_EQ(error.status, Status::shard) << target << ": " << error.message;
      EXPECT_NE(error.message.find("is a link that leaves the directory"), std::string::npos) << error.message;
    }
  }
}

// The kernel returns no path of a directory that is this deep, so no target can be recognized as inside it.
TEST_F(ShardPathsTest, ALinkInAFolderTooDeepForAPathLeavesIt) {
  const char* const shard = "model-00001-of-00002.safetensors";
  const std::string step(200, 'd');
  std::vector<int> deep{::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  while (deep.size() * (step.size() + 1) < PATH_MAX + 1000) {
    ASSERT_EQ(mkdirat(deep.back(), step.c_str(), 0700), 0);
    deep.push_back(openat(deep.back(), step.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_GE(deep.back(), 0);
  }
  const fs::path here = formatted("/proc/self/fd/{}", deep.back());
  std::ofstream(here / "m.safetensors.index.json")
      << formatted(R"({{"weight_map":{{"a":"{}","b":"{}"}}}})", shard, shard);
  ASSERT_EQ(symlinkat((folder / shard).c_str(), deep.back(), shard), 0);
  const Error error = error_of(here / "m.safetensors.index.json");
  EXPECT_EQ(error.status, Status::shard) << error.message;
  EXPECT_NE(error.message.find("is a link that leaves the directory"), std::string::npos) << error.message;
  unlinkat(deep.back(), shard, 0);
  unlinkat(deep.back(), "m.safetensors.index.json", 0);
  for (; deep.size() > 1; deep.pop_back()) {
    ::close(deep.back());
    unlinkat(deep[deep.size() - 2], step.c_str(), AT_REMOVEDIR);
  }
  ::close(deep.front());
}

}  // namespace
}  // namespace st::core::shard_paths_test
