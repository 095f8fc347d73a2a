// Whichever call fails while a model is opened and read: the bytes are right, or the error has the system's message; no
// descriptor or mapping leaks.
//
// Each scenario first runs to count its system calls of each kind, and then once for each call and each error.
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <vector>

#include "../format/file_front.hpp"
#include "../io/read_faults.hpp"
#include "base/error.hpp"
#include "core/checkpoint.hpp"
#include "core/plan.hpp"

namespace st::core::read_faults_test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = 5000;     // of each shard's tensor
constexpr std::size_t kMostCalls = 500;  // with a fault, of each kind and over all shards

std::string shard_bytes(std::size_t i) {
  const std::string header =
      formatted(R"({{"t{}":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})", i, kBytes, kBytes);
  std::string bytes = format::file_front(header);
  for (std::size_t k = 0; k < kBytes; ++k) bytes += static_cast<char>(i * 7 + k * 31 + k / 256);
  return bytes;
}

class Model {
 public:
  explicit Model(std::size_t shards, bool has_index) : shards_(shards) {
    std::string name = (fs::temp_directory_path() / "read-faults-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::string index = R"({"weight_map":{)";
    for (std::size_t i = 0; i < shards; ++i) {
      const std::string file = formatted("model-{:05}-of-{:05}.safetensors", i + 1, shards);
      std::ofstream(folder_ / file, std::ios::binary) << shard_bytes(i);
      index += formatted(R"({}"t{}":"{}")", i == 0 ? "" : ",", i, file);
    }
    if (has_index) std::ofstream(folder_ / "model.safetensors.index.json") << index << "}}";
  }
  ~Model() { fs::remove_all(folder_); }
  Model(const Model&) = delete;

  const fs::path& folder() const { return folder_; }
  std::size_t shards() const { return shards_; }
  fs::path shard(std::size_t i) const {
    return folder_ / formatted("model-{:05}-of-{:05}.safetensors", i + 1, shards_);
  }

 private:
  fs::path folder_;
  std::size_t shards_;
};

struct Scenario {
  const char* name;
  std::size_t shards;
  bool has_index;
  const char* opened;  // in the model's folder
  io::Mode mode;
};

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

constexpr Scenario kScenarios[] = {
    {"one file, mapped", 1, false, "model-00001-of-00001.safetensors", io::Mode::map},
    {"one file, as it comes", 1, false, "model-00001-of-00001.safetensors", io::Mode::automatic},
    {"one file, copied on write", 1, false, "model-00001-of-00001.safetensors", io::Mode::copy_on_write},
    {"one file, read", 1, false, "model-00001-of-00001.safetensors", io::Mode::read},
    {"a folder", 3, false, "", io::Mode::automatic},
    {"an index", 3, true, "model.safetensors.index.json", io::Mode::automatic},
    {"more shards than descriptors are kept for", 70, true, "model.safetensors.index.json", io::Mode::read},
};

const std::map<std::string, std::vector<int>> kErrors{
    {"open", {EMFILE, ENFILE, EACCES, EPERM, ENOENT, EIO, ENOMEM, EINTR}},
    {"stat", {EACCES, ENOENT, EIO, ENOMEM, ELOOP}},
    {"fstat", {EIO, ENOMEM, EOVERFLOW}},
    {"mmap", {ENOMEM, ENODEV, EACCES, EAGAIN}},
    {"read", {EIO, ENOMEM, EAGAIN, EINTR}},
    {"readdir", {EIO, EBADF, ENOENT, EOVERFLOW}},
};

// Reads each tensor alone, and then all with one plan.
bool reads_right(const Scenario& scenario, const Model& model) {
  OpenOptions options;
  options.io = scenario.mode;
  options.threads = 1;
  const CheckpointPtr file = Checkpoint::open((model.folder() / scenario.opened).c_str(), options);
  std::vector<std::string> got(model.shards(), std::string(kBytes, '?'));
  Plan plan(*file);
  bool right = file->count_tensors() == model.shards();
  for (std::size_t i = 0; right && i < got.size(); ++i) {
    const Tensor* const tensor = file->tensor(formatted("t{}", i));
    std::string alone(kBytes, '?');
    read(*tensor, alone.data());
    right = shard_bytes(i).ends_with(alone);
    plan.add(*tensor, nullptr, nullptr, nullptr, got[i].data(), kBytes);
  }
  ReadOptions reading;
  reading.threads = 1;
  plan.run(reading);
  for (std::size_t i = 0; right && i < got.size(); ++i) right = shard_bytes(i).ends_with(got[i]);
  return right;
}

std::size_t entries_of(const char* folder) {
  std::size_t n = 0;
  DIR* const stream = opendir(folder);
  while (readdir(stream) != nullptr) ++n;
  closedir(stream);
  return n;
}

std::size_t mappings_below(const fs::path& folder) {
  std::ifstream maps("/proc/self/maps");
  std::size_t n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find(folder.string()) != line.npos ? 1U : 0U;
  return n;
}

class ReadFaults : public testing::TestWithParam<Scenario> {
 protected:
  std::size_t calls_of(const std::string& call) {
    read_faults::arm({call});
    EXPECT_TRUE(reads_right(GetParam(), model));
    read_faults::disarm();
    return read_faults::calls();
  }

  // nothing: it went well.
  std::optional<Error> outcome(const read_faults::Plan& plan) {
    const std::size_t descriptors = entries_of("/proc/self/fd");
    std::optional<Error> error;
    bool right = true;
    read_faults::arm(plan);
    try {
      right = reads_right(GetParam(), model);
    } catch (const Error& caught) {
      error = caught;
    }
    read_faults::disarm();
    EXPECT_TRUE(right) << "wrong bytes or too few tensors, and no error";
    EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
    EXPECT_EQ(mappings_below(model.folder()), 0U);
    return error;
  }

  const Model model{GetParam().shards, GetParam().has_index};
};

bool is_told(const Error& error, int os_error) {
  if (error.message.empty() || error.message.find('\n') != std::string::npos) return false;
  if (error.os_error == os_error) return true;
  return os_error == ENOENT && error.status == Status::shard;  // "shard X is missing"
}

TEST_P(ReadFaults, AreToldOrSurvived) {
  std::size_t points = 0;
  for (const auto& [call, errors] : kErrors) {
    const std::size_t calls = calls_of(call);
    const std::size_t step = calls * GetParam().shards / kMostCalls + 1;
    for (std::size_t at = 0; at < calls; at += step) {
      for (const int os_error : errors) {
        for (const std::size_t times : {std::size_t{1}, SIZE_MAX}) {
          if (os_error == EINTR && times != 1) continue;  // a call that is interrupted forever may block forever
          SCOPED_TRACE(formatted("{} {} of {}: {}, {}", call, at, calls, strerror(os_error),
                                 times == 1 ? "once" : "from then on"));
          const std::optional<Error> error = outcome({call, at, times, os_error});
          ++points;
          if (!error) continue;
          EXPECT_TRUE(is_told(*error, os_error)) << error->message;
          EXPECT_NE(os_error, EINTR) << error->message;
        }
      }
    }
  }
  std::printf("%s: %zu faults\n", GetParam().name, points);
}

TEST_P(ReadFaults, ShortReadsAreContinued) {
  for (const std::size_t most : {1U, 7U, 4096U}) {
    const auto error = outcome({"read", 0, 0, 0, most});
    EXPECT_FALSE(error) << error->message;
  }
}

// These errors must be reported, because there is no fallback.
TEST_P(ReadFaults, OfTheFirstCallAreNotSwallowed) {
  for (const std::string call : {"open", "stat", "fstat", "read"}) {
    const auto error = outcome({call, 0, SIZE_MAX, EIO});
    ASSERT_TRUE(error) << call;
    EXPECT_EQ(error->os_error, EIO) << call << ": " << error->message;
  }
}

INSTANTIATE_TEST_SUITE_P(, ReadFaults, testing::ValuesIn(kScenarios),
                         [](const auto& row) { return std::to_string(row.index); });

TEST(ReadFaultsOfFolders, AnUnreadableFolderIsNotAnEmptyOne) {
  const Model model(3, false);
  for (std::size_t at = 0; at < 4; ++at) {
    read_faults::arm({"readdir", at, 1, EIO});
    std::optional<Error> error;
    try {
      Checkpoint::open(model.folder().c_str(), {});
    } catch (const Error& caught) {
      error = caught;
    }
    read_faults::disarm();
    ASSERT_TRUE(error) << at;
    EXPECT_EQ(error->os_error, EIO) << error->message;
  }
}

// A header is checked before its file is mapped.
TEST(ReadFaultsOfFolders, ANameGivenTwiceIsToldBeforeAFileThatCannotBeMapped) {
  const Model model(2, true);
  std::ofstream(model.shard(0), std::ios::binary)
      << format::file_front(R"({"t0":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                            R"("t0":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})")
      << "12345678";
  OpenOptions options;
  options.io = io::Mode::map;
  options.threads = 1;
  read_faults::arm({"mmap", 0, SIZE_MAX, ENOMEM});
  Status told = Status::ok;
  try {
    Checkpoint::open((model.folder() / "model.safetensors.index.json").c_str(), options);
  } catch (const Error& error) {
    told = error.status;
  }
  read_faults::disarm();
  EXPECT_EQ(static_cast<int>(told), static_cast<int>(Status::duplicate));
}

std::size_t maps_while_opening(const fs::path& path, io::Mode mode) {
  OpenOptions options;
  options.io = mode;
  options.threads = 1;
  read_faults::arm({"mmap"});
  try {
    Checkpoint::open(path.c_str(), options);
  } catch (const Error&) {}
  const std::size_t calls = read_faults::calls();
  read_faults::disarm();
  return calls;
}

// The header is copied before it is parsed. A mapping would show what other processes write meanwhile.
TEST(ReadFaultsOfFolders, NoFileIsMappedBeforeItsHeaderIsAccepted) {
  for (const io::Mode mode : {io::Mode::automatic, io::Mode::read, io::Mode::map, io::Mode::copy_on_write}) {
    const Model model(1, false);
    const bool maps_at_once = mode == io::Mode::map || mode == io::Mode::copy_on_write;
    EXPECT_EQ(maps_while_opening(model.shard(0), mode), maps_at_once ? 1U : 0U);
    std::ofstream(model.shard(0), std::ios::binary)
        << format::file_front(R"({"t0":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}})") << "1234";
    EXPECT_EQ(maps_while_opening(model.shard(0), mode), 0U);
  }
}

void in_turn(void*, std::size_t n, void (*fn)(void*, std::size_t), void* arg) {
  for (std::size_t i = 0; i < n; ++i) fn(arg, i);
}

// The cache state of all files is queried before the first read.
TEST(ReadFaultsOfPlans, OneShardAfterAnotherHasADescriptor) {
  constexpr std::size_t kShards = 70;
  const Model model(kShards, true);
  OpenOptions options;
  options.io = io::Mode::read;
  const CheckpointPtr file = Checkpoint::open((model.folder() / "model.safetensors.index.json").c_str(), options);
  std::vector<std::string> got(2 * kShards, std::string(kBytes, '?'));  // twice: enough to be worth two readers
  Plan plan(*file);
  for (std::size_t i = 0; i < got.size(); ++i)
    plan.add(*file->tensor(formatted("t{}", i % kShards)), nullptr, nullptr, nullptr, got[i].data(), kBytes);
  ReadOptions reading;
  reading.pool.parallel_for = in_turn;
  const std::size_t before = entries_of("/proc/self/fd");
  std::size_t most = 0;
  read_faults::arm({"open", 0, 0, 0, 0, [&most](std::size_t) { most = std::max(most, entries_of("/proc/self/fd")); }});
  plan.run(reading);
  read_faults::disarm();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(shard_bytes(i % kShards).ends_with(got[i])) << i;
  ASSERT_LE(most, before + 2);
  if (read_faults::calls() < 2 * kShards) GTEST_SKIP() << "the system does not tell what is cached";
}

// ---- another file under the name of one that is at rest ----------------------------------------------------------------

// Filesystems give the number of a removed file to the next one; then only times and size differ.
TEST(ShardsAtRest, AreNeverReadFromAFileThatGotTheirInode) {
  const Model model(70, true);
  OpenOptions options;
  options.io = io::Mode::read;
  const CheckpointPtr file = Checkpoint::open((model.folder() / "model.safetensors.index.json").c_str(), options);
  const fs::path shard = model.shard(69);
  std::string got(kBytes, '?');
  read(*file->tensor("t69"), got.data());
  ASSERT_TRUE(shard_bytes(69).ends_with(got));
  for (int i = 0; i < 50; ++i) {
    fs::remove(shard);
    std::ofstream(shard, std::ios::binary) << shard_bytes(68);
    bool refused = false;
    try {
      read(*file->tensor("t69"), got.data());
    } catch (const Error& error) {
      refused = error.status == Status::read && error.message.find("no longer the file") != std::string::npos;
    }
    EXPECT_TRUE(refused) << i;
    Plan plan(*file);
    plan.add(*file->tensor("t69"), nullptr, nullptr, nullptr, got.data(), kBytes);
    EXPECT_THROW(plan.run({}), Error) << i;
  }
}

// Without a mapping, the inode number may be reused, so times and size must be compared.
TEST(ShardsAtRest, WithoutAMappingAreToldByTheirTimes) {
  const Model model(70, true);
  OpenOptions options;
  options.io = io::Mode::read;
  read_faults::arm({"mmap", 0, SIZE_MAX, ENODEV});
  const CheckpointPtr file = Checkpoint::open((model.folder() / "model.safetensors.index.json").c_str(), options);
  read_faults::disarm();
  const fs::path shard = model.shard(69);
  std::string got(kBytes, '?');
  read(*file->tensor("t69"), got.data());
  ASSERT_TRUE(shard_bytes(69).ends_with(got));
  // A file overwritten in place has the same inode and size, like a new file that reuses the inode.
  std::ofstream(shard, std::ios::binary) << shard_bytes(68);
  fs::last_write_time(shard, fs::last_write_time(shard) - std::chrono::hours(1));
  EXPECT_THROW(read(*file->tensor("t69"), got.data()), Error);
}

// These change times but not the mapped file: a new hard link, another mode, another name.
TEST(ShardsAtRest, AreReadAfterTheirTimesChanged) {
  const Model model(70, true);
  OpenOptions options;
  options.io = io::Mode::read;
  const CheckpointPtr file = Checkpoint::open((model.folder() / "model.safetensors.index.json").c_str(), options);
  const fs::path shard = model.shard(69);
  fs::last_write_time(shard, fs::last_write_time(shard) - std::chrono::hours(1));
  fs::create_hard_link(shard, model.folder() / "linked");
  fs::permissions(shard, fs::perms::owner_read);
  std::string got(kBytes, '?');
  read(*file->tensor("t69"), got.data());
  EXPECT_TRUE(shard_bytes(69).ends_with(got));
}

}  // namespace
}  // namespace st::core::read_faults_test
