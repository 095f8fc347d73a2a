// Many shards opened on several threads: whatever order the index has, every tensor is found, and of several faults the
// same one is told as if the shards had been read one after another.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory_resource>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../format/file_front.hpp"
#include "../io/fresh_folder.hpp"
#include "base/error.hpp"
#include "core/checkpoint.hpp"

namespace st::core {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;
using Entries = std::vector<std::pair<std::string, std::size_t>>;  // tensor and shard

std::string bytes_of(const std::string& header, std::size_t data) {
  return format::file_front(header) + std::string(data, 'x');
}

std::string entry(const std::string& name, std::size_t begin, std::size_t end) {
  return formatted(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name, end - begin, begin, end);
}

// A tensor of one byte for each name.
std::string shard_of(const Names& names) {
  std::string header;
  for (std::size_t i = 0; i < names.size(); ++i) header += (i == 0 ? "{" : ",") + entry(names[i], i, i + 1);
  return bytes_of(header + "}", names.size());
}

std::string shard_name(std::size_t i) { return formatted("part-{:03}.safetensors", i); }

class OpenShards : public testing::Test {
 protected:
  void SetUp() override { folder = io::fresh_folder("shards"); }
  void TearDown() override { fs::remove_all(folder); }

  // Each with its own names. More than 16,384 tensors are gathered by several threads.
  void make_names(std::size_t shards, std::size_t tensors) {
    for (std::size_t i = 0; i < shards; ++i) {
      Names& names = model.emplace_back();
      for (std::size_t k = 0; k < tensors; ++k) names.push_back(formatted("layer.{}.{}.weight", i, k));
    }
  }

  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  void put_shards() const {
    for (std::size_t i = 0; i < model.size(); ++i) put(shard_name(i), shard_of(model[i]));
  }
  void put_index(const Entries& entries) const {
    std::string text;
    for (const auto& [tensor, shard] : entries) {
      text += formatted("{}\"{}\":\"{}\"", text.empty() ? "" : ",\n", tensor, shard_name(shard));
    }
    put("model.safetensors.index.json", "{\"weight_map\":{" + text + "}}");
  }

  Entries entries_of_model() const {
    Entries entries;
    for (std::size_t i = 0; i < model.size(); ++i) {
      for (const std::string& name : model[i]) entries.emplace_back(name, i);
    }
    return entries;
  }

  CheckpointPtr open(OpenOptions options = {}) const {
    return Checkpoint::open((folder / "model.safetensors.index.json").string().c_str(), options);
  }

  // On one thread and on several, which must agree.
  Error error_of(OpenOptions options = {}) const {
    Error told{Status::ok, 0, kNowhere, {}};
    for (const unsigned threads : {1U, 4U}) {
      Error error{Status::ok, 0, kNowhere, {}};
      options.threads = threads;
      try {
        open(options);
      } catch (const Error& caught) {
        error = caught;
      }
      if (threads != 1) {
        EXPECT_EQ(error.message, told.message);
      }
      told = error;
    }
    return told;
  }

  void expect_error(Status status, const std::string& part) const {
    const Error error = error_of();
    EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(status)) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  }

  fs::path folder;
  std::vector<Names> model;
};

constexpr std::size_t kShards = 40;
constexpr std::size_t kTensors = 500;

TEST_F(OpenShards, EveryTensorIsFoundWhateverTheOrderOfTheIndex) {
  make_names(kShards, kTensors);
  put_shards();
  const Entries in_order = entries_of_model();
  const auto shuffled = [&] {
    Entries entries = in_order;
    std::shuffle(entries.begin(), entries.end(), std::mt19937_64(1));
    return entries;
  };
  const auto halves_of_shards_alternating = [&] {
    Entries entries;
    for (std::size_t k = 0; k < kTensors / 2; ++k) {
      for (std::size_t i = 0; i < kShards; ++i) {
        entries.emplace_back(model[i][k], i);
        entries.emplace_back(model[i][k + kTensors / 2], i);
      }
    }
    return entries;
  };
  for (const Entries& entries :
       {in_order, Entries(in_order.rbegin(), in_order.rend()), shuffled(), halves_of_shards_alternating()}) {
    put_index(entries);
    for (const unsigned threads : {1U, 2U, 7U}) {
      OpenOptions options;
      options.threads = threads;
      const CheckpointPtr file = open(options);
      ASSERT_EQ(file->count_tensors(), in_order.size());
      EXPECT_TRUE(file->warnings().empty());
      for (std::size_t i = 0; i < in_order.size(); ++i) {
        const auto& [name, shard] = in_order[i];
        ASSERT_EQ(file->tensor_at(i)->name(), name);
        ASSERT_EQ(core::shard_of(*file->tensor_at(i)).number, shard);
        ASSERT_EQ(file->tensor(name), file->tensor_at(i));
        ASSERT_EQ(file->tensor(name + "s"), nullptr);
      }
    }
  }
}

TEST_F(OpenShards, AnEntryOfTheIndexThatFitsNoTensorIsTold) {
  make_names(3, 20);
  put_shards();
  const Entries all = entries_of_model();
  for (const bool backwards : {false, true}) {
    Entries entries = backwards ? Entries(all.rbegin(), all.rend()) : all;
    std::swap(entries[25].second, entries[45].second);
    put_index(entries);
    expect_error(Status::shard, "is not in its shard 'part-00");
    entries = backwards ? Entries(all.rbegin(), all.rend()) : all;
    entries.push_back(entries[30]);
    put_index(entries);
    expect_error(Status::duplicate, "'" + entries[30].first + "' is given twice, for shard 'part-001.safetensors'");
    entries.back() = {"layer.9.9.weight", 2};
    put_index(entries);
    expect_error(Status::shard, "'layer.9.9.weight' is not in its shard 'part-002.safetensors'");
  }
}

TEST_F(OpenShards, TensorsThatTheIndexForgetsAreCounted) {
  make_names(kShards, kTensors);
  put_shards();
  Entries entries = entries_of_model();
  entries.erase(entries.begin() + 3 * kTensors + 7, entries.begin() + 3 * kTensors + 9);
  entries.erase(entries.begin() + 1);
  std::reverse(entries.begin(), entries.end());
  put_index(entries);
  const CheckpointPtr file = open();
  ASSERT_EQ(file->warnings().size(), 2U);
  EXPECT_NE(file->warnings()[0].find("holds 1 tensors that the index does not list, the first is 'layer.0.1.weight'"),
            std::string::npos);
  EXPECT_NE(file->warnings()[1].find("holds 2 tensors that the index does not list, the first is 'layer.3.7.weight'"),
            std::string::npos);
  OpenOptions strict;
  strict.header.rules = format::Rules::strict;
  EXPECT_EQ(error_of(strict).message, file->warnings()[0]);
}

// A shard is told to give a name twice in the words, and at the place, of a file that is opened by itself.
TEST_F(OpenShards, ANameGivenTwiceInOneShardIsToldAsInASingleFile) {
  make_names(kShards, kTensors);
  model[17][400] = model[17][33];
  put_shards();
  put_index(entries_of_model());
  const Error error = error_of();
  try {
    Checkpoint::open((folder / shard_name(17)).string().c_str(), {});
    FAIL() << "opened";
  } catch (const Error& alone) {
    EXPECT_EQ(static_cast<int>(alone.status), static_cast<int>(Status::duplicate));
    EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(alone.status));
    EXPECT_EQ(error.offset, alone.offset);
    EXPECT_EQ(error.message, alone.message);
  }
}

// The offsets of a header are checked after its names.
TEST_F(OpenShards, ANameGivenTwiceIsToldBeforeAFaultOfTheOffsets) {
  make_names(2, 3);
  put_shards();
  put(shard_name(1), bytes_of("{" + entry("b", 4, 8) + "," + entry("a", 0, 4) + "," + entry("b", 2, 6) + "}", 8));
  put_index({{"layer.0.0.weight", 0}, {"a", 1}});
  expect_error(Status::duplicate, "tensor 'b' is given twice");
  EXPECT_EQ(error_of().offset, 8 + 1 + entry("b", 4, 8).size() + 1 + entry("a", 0, 4).size() + 1);
}

// By the reference's rules the last of a name counts, also where the earlier ones break the chain of offsets.
TEST_F(OpenShards, TheLastOfANameCountsByTheRulesOfTheReference) {
  make_names(kShards, kTensors);
  put_shards();
  const std::string empty = R"("layer.7.0.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
  put(shard_name(7), bytes_of("{" + empty + entry("layer.7.0.weight", 0, 4) + "}", 4));
  put(shard_name(8), bytes_of("{" + entry("layer.8.0.weight", 1, 3) + "," + entry("layer.8.0.weight", 0, 4) + "}", 4));
  Entries entries = entries_of_model();
  entries.erase(entries.begin() + 7 * kTensors, entries.begin() + 9 * kTensors);
  entries.emplace_back("layer.7.0.weight", 7);
  entries.emplace_back("layer.8.0.weight", 8);
  put_index(entries);
  OpenOptions options;
  options.header.rules = format::Rules::reference;
  const CheckpointPtr file = open(options);
  EXPECT_EQ(file->count_tensors(), (kShards - 2) * kTensors + 2);
  EXPECT_EQ(file->tensor("layer.7.0.weight")->bytes(), 4U);
  EXPECT_EQ(file->tensor("layer.8.0.weight")->bytes(), 4U);
  EXPECT_EQ(file->tensor("layer.39.499.weight"), file->tensor_at(file->count_tensors() - 1));
  expect_error(Status::duplicate, "'layer.7.0.weight' is given twice");
}

TEST_F(OpenShards, OfNamesInTwoShardsTheFirstToComeAgainIsTold) {
  make_names(kShards, kTensors);
  model[31][2] = model[4][499];
  model[29][3] = model[28][0];
  model[29][2] = model[20][1];
  model[30][0] = model[20][1];
  put_shards();
  Entries entries = entries_of_model();
  for (int order = 0; order < 2; ++order) {
    put_index(entries);
    const Error error = error_of();
    EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(Status::shard));
    EXPECT_EQ(error.message, formatted("tensor 'layer.20.1.weight' is in two shards, '{}' and '{}'",
                                       (folder / shard_name(20)).string(), (folder / shard_name(29)).string()));
    std::reverse(entries.begin(), entries.end());  // so that each tensor is looked up
  }
}

// Faults of one header come first, in the order of the shards, then those of the index, then names in two shards.
TEST_F(OpenShards, OfSeveralFaultsTheFirstIsTold) {
  make_names(kShards, kTensors);
  model[9][0] = model[8][0];
  put_shards();
  Entries entries = entries_of_model();
  put_index(entries);
  expect_error(Status::shard, "tensor 'layer.8.0.weight' is in two shards");
  entries.emplace_back("absent", 20);
  entries.emplace_back("absent", 15);
  put_index(entries);
  expect_error(Status::shard, "tensor 'absent' is not in its shard 'part-015.safetensors'");
  model[30][1] = model[30][0];
  put(shard_name(30), shard_of(model[30]));
  expect_error(Status::duplicate, "part-030.safetensors': tensor 'layer.30.0.weight' is given twice");
  model[25][1] = model[25][0];
  put(shard_name(25), shard_of(model[25]));
  expect_error(Status::duplicate, "part-025.safetensors': tensor 'layer.25.0.weight' is given twice");
  put(shard_name(35), "no model");
  expect_error(Status::duplicate, "part-025.safetensors': tensor 'layer.25.0.weight' is given twice");
  put(shard_name(24), bytes_of("{]", 0));
  expect_error(Status::json, "part-024.safetensors': ");
  fs::remove(folder / shard_name(23));
  expect_error(Status::shard, "shard 'part-023.safetensors' is missing");
}

struct Counted {
  std::mutex mutex;
  std::size_t now = 0;
  std::size_t most = 0;
};

Allocator counting(Counted& counted) {
  const auto add = [](void* ctx, std::size_t bytes, std::size_t alignment) -> void* {
    auto& all = *static_cast<Counted*>(ctx);
    const std::lock_guard lock(all.mutex);
    all.now += bytes;
    all.most = std::max(all.most, all.now);
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  };
  const auto take = [](void* ctx, void* memory, std::size_t bytes, std::size_t alignment) {
    auto& all = *static_cast<Counted*>(ctx);
    const std::lock_guard lock(all.mutex);
    all.now -= bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  };
  return {&counted, add, take};
}

// A byte of text and four of numbers for each byte of such a header: not the numbers twice when it is read again.
TEST_F(OpenShards, ALongHeaderThatIsReadAgainTakesNoMoreMemory) {
#if defined(_LIBCPP_VERSION)
  constexpr std::size_t kTimes = 14;  // the next block of an arena is twice as large as the last one
#else
  constexpr std::size_t kTimes = 8;
#endif
  std::string zeros = "0";
  for (std::size_t i = 1; i < (std::size_t{4} << 20); ++i) zeros += ",0";
  const std::string long_one = R"("a":{"dtype":"U8","shape":[)" + zeros + R"(],"data_offsets":[0,0]})";
  const std::string faulty = bytes_of("{]", 0);
  put_index({{"a", 0}, {"b", 1}});
  for (const std::string& rest : {std::string(), "," + entry("a", 0, 0), "," + entry("b", 1, 1)}) {
    put(shard_name(0), bytes_of("{" + long_one + rest + "}", 0));
    put(shard_name(1), faulty);
    Counted counted;
    OpenOptions options;
    options.threads = 1;
    options.allocator = counting(counted);
    EXPECT_THROW(open(options), Error);
    EXPECT_LE(counted.most, kTimes * (zeros.size() + (std::size_t{1} << 20))) << rest;
    EXPECT_EQ(counted.now, 0U);
  }
}

}  // namespace
}  // namespace st::core
