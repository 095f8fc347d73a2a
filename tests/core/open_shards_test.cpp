// Opening shards: every tensor is found whatever the order of the index, several threads report the same error as one, and
// no index is trusted.
// SPDX-License-Identifier: Apache-2.0
#include "core/open_shards.hpp"

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
#include <string_view>
#include <utility>
#include <vector>

#include "../format/file_front.hpp"
#include "../io/fresh_folder.hpp"
#include "base/error.hpp"
#include "core/check.hpp"
#include "core/checkpoint.hpp"
#include "io/os.hpp"
#include "shards.hpp"

namespace st::core::open_shards_test {
namespace {

using Names = std::vector<std::string>;
using Entries = std::vector<std::pair<std::string, std::size_t>>;  // tensor and shard

std::string bytes_of(const std::string& header, std::size_t data) {
  return format::file_front(header) + std::string(data, 'x');
}

std::string entry_of(const std::string& name, std::size_t begin, std::size_t end) {
  return formatted(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name, end - begin, begin, end);
}

// A tensor of one byte for each name.
std::string shard_bytes(const Names& names) {
  std::string header;
  for (std::size_t i = 0; i < names.size(); ++i) header += (i == 0 ? "{" : ",") + entry_of(names[i], i, i + 1);
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
    for (std::size_t i = 0; i < model.size(); ++i) put(shard_name(i), shard_bytes(model[i]));
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

  // Opens on one thread and on several, and expects the same error.
  Error error_of(OpenOptions options = {}) const {
    Error result{Status::ok, 0, kNowhere, {}};
    for (const unsigned threads : {1U, 4U}) {
      Error error{Status::ok, 0, kNowhere, {}};
      options.threads = threads;
      try {
        open(options);
      } catch (const Error& caught) {
        error = caught;
      }
      if (threads != 1) {
        EXPECT_EQ(error.message, result.message);
      }
      result = error;
    }
    return result;
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
    expect_error(Status::duplicate, "'" + entries[30].first + "' is listed twice for shard 'part-001.safetensors'");
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
  EXPECT_NE(
      file->warnings()[0].find("contains 1 tensors that the index does not list; the first is 'layer.0.1.weight'"),
      std::string::npos);
  EXPECT_NE(
      file->warnings()[1].find("contains 2 tensors that the index does not list; the first is 'layer.3.7.weight'"),
      std::string::npos);
  OpenOptions strict;
  strict.header.rules = format::Rules::strict;
  EXPECT_EQ(error_of(strict).message, file->warnings()[0]);
}

// The error has the message and the offset that opening the shard by itself reports.
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
  put(shard_name(1),
      bytes_of("{" + entry_of("b", 4, 8) + "," + entry_of("a", 0, 4) + "," + entry_of("b", 2, 6) + "}", 8));
  put_index({{"layer.0.0.weight", 0}, {"a", 1}});
  expect_error(Status::duplicate, "tensor 'b' occurs twice");
  EXPECT_EQ(error_of().offset, 8 + 1 + entry_of("b", 4, 8).size() + 1 + entry_of("a", 0, 4).size() + 1);
}

// With the reference's rules the last of equal names counts, even if earlier ones break the chain of offsets.
TEST_F(OpenShards, TheLastOfANameCountsByTheRulesOfTheReference) {
  make_names(kShards, kTensors);
  put_shards();
  const std::string empty = R"("layer.7.0.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
  put(shard_name(7), bytes_of("{" + empty + entry_of("layer.7.0.weight", 0, 4) + "}", 4));
  put(shard_name(8),
      bytes_of("{" + entry_of("layer.8.0.weight", 1, 3) + "," + entry_of("layer.8.0.weight", 0, 4) + "}", 4));
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
  expect_error(Status::duplicate, "'layer.7.0.weight' occurs twice");
}

TEST_F(OpenShards, OfNamesInTwoShardsTheFirstToComeAgainIsTold) {
  make_names(kShards, kTensors);
  model[31][2] = model[4][499];
  model[30][3] = model[28][0];
  model[29][499] = model[20][1];
  model[30][0] = model[20][1];
  put_shards();
  Entries entries = entries_of_model();
  for (int order = 0; order < 2; ++order) {
    put_index(entries);
    const Error error = error_of();
    EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(Status::shard));
    EXPECT_EQ(error.message, formatted("tensor 'layer.20.1.weight' is in two shards, '{}' and '{}'",
                                       (folder / shard_name(20)).string(), (folder / shard_name(29)).string()));
    std::reverse(entries.begin(), entries.end());  // so each tensor is looked up
  }
}

// Errors of one header come first, in the order of the shards, then contradictions of the index, then names in two shards.
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
  put(shard_name(30), shard_bytes(model[30]));
  expect_error(Status::duplicate, "part-030.safetensors': tensor 'layer.30.0.weight' occurs twice");
  model[25][400] = model[25][0];
  put(shard_name(25), shard_bytes(model[25]));
  expect_error(Status::duplicate, "part-025.safetensors': tensor 'layer.25.0.weight' occurs twice");
  put(shard_name(35), "no model");
  expect_error(Status::duplicate, "part-025.safetensors': tensor 'layer.25.0.weight' occurs twice");
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

// Each byte of such a header takes one byte of text and four of numbers. A second parse must not allocate the numbers
// again.
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
  for (const std::string& rest : {std::string(), "," + entry_of("a", 0, 0), "," + entry_of("b", 1, 1)}) {
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

// ---- valid and invalid indexes --------------------------------------------------------------------------------------

class OpenModel : public ShardsTest {};

TEST_F(OpenModel, ShowsAllShardsAsOneFile) {
  put("model.safetensors.index.json", kGood);
  for (const fs::path& path : {fs::path(index()), folder}) {
    for (const io::Mode mode : {io::Mode::automatic, io::Mode::map, io::Mode::copy_on_write, io::Mode::read}) {
      OpenOptions options;
      options.io = mode;
      const CheckpointPtr file = open(path, options);
      ASSERT_EQ(file->count_tensors(), 3U);
      EXPECT_EQ(file->count_shards(), 2U);
      EXPECT_EQ(file->tensor_at(0)->name(), "a");
      EXPECT_EQ(file->tensor_at(2)->name(), "c");
      EXPECT_EQ(file->tensor_at(3), nullptr);
      EXPECT_EQ(file->tensor("absent"), nullptr);
      const Tensor* const c = file->tensor("c");
      ASSERT_EQ(c, file->tensor_at(2));
      EXPECT_EQ(shard_of(*c).number, 1U);
      std::string bytes(4, '\0');
      read(*c, bytes.data());
      EXPECT_EQ(bytes, "yyyy");
      EXPECT_TRUE(file->warnings().empty());
      ASSERT_EQ(file->metadata().size(), 3U);
      EXPECT_EQ(file->metadata("total_size")->value, "12");
      EXPECT_EQ(file->metadata("author")->value, "abc");
      EXPECT_EQ(file->metadata("format")->value, "pt");
    }
  }
}

TEST_F(OpenModel, ListsTensorsThatTheIndexForgot) {
  put("model.safetensors.index.json",
      R"({"weight_map":{"a":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})");
  const CheckpointPtr file = open(index());
  EXPECT_EQ(file->count_tensors(), 3U);
  ASSERT_EQ(file->warnings().size(), 1U);
  EXPECT_NE(file->warnings()[0].find("contains 1 tensors that the index does not list; the first is 'b'"),
            std::string::npos);
  OpenOptions strict;
  strict.header.rules = format::Rules::strict;
  EXPECT_EQ(error_of(index(), strict).status, Status::shard);
}

const BadIndex kBad[] = {
    {"absolute", mapping("/etc/passwd"), Status::shard, "is absolute"},
    {"parent", mapping("../outside.safetensors"), Status::shard, "leaves the directory"},
    {"parent inside", mapping("a/../../b"), Status::shard, "leaves the directory"},
    {"parent at the end", mapping("sub/.."), Status::shard, "leaves the directory"},
    {"only parent", mapping(".."), Status::shard, "leaves the directory"},
    {"drive letter", mapping("C:model.safetensors"), Status::shard, "drive letter"},
    {"drive and slash", mapping("c:/model.safetensors"), Status::shard, "drive letter"},
    {"backslash", mapping("..\\\\model.safetensors"), Status::shard, "backslash"},
    {"share", mapping("\\\\\\\\server\\\\share"), Status::shard, "backslash"},
    {"NUL", mapping("model\\u0000.safetensors"), Status::shard, "NUL"},
    {"empty name", mapping(""), Status::shard, "is empty"},
    {"missing shard", mapping("model-00009-of-00002.safetensors"), Status::shard,
     "'model-00009-of-00002.safetensors' is missing"},
    {"tensor missing in shard", mapping("model-00002-of-00002.safetensors"), Status::shard,
     "tensor 'a' is not in its shard"},
    {"tensor of a shard without tensors", mapping("empty.safetensors"), Status::shard,
     "tensor 'a' is not in its shard 'empty.safetensors'"},
    {"tensor in two shards", mapping("model-00001-of-00002.safetensors", "twin.safetensors"), Status::shard,
     "is in two shards"},
    {"folder as shard", mapping("sub"), Status::open, "is a directory"},
    {"broken shard", mapping("broken.safetensors"), Status::json, "broken.safetensors': "},
    {"pickle as shard", mapping("model.bin"), Status::format, "zip archive"},
    {"weight_map absent", "{}", Status::schema, "has no weight_map"},
    {"weight_map a list", R"({"weight_map":[]})", Status::schema, "weight_map is not an object"},
    {"weight_map twice", R"({"weight_map":{},"weight_map":{}})", Status::duplicate, "weight_map occurs twice"},
    {"metadata twice", R"({"metadata":{},"metadata":{},"weight_map":{}})", Status::duplicate, "metadata occurs twice"},
    {"metadata a list", R"({"metadata":[],"weight_map":{}})", Status::schema, "metadata is not an object"},
    {"file a number", R"({"weight_map":{"a":1}})", Status::schema, "no file name for tensor 'a'"},
    {"file null", R"({"weight_map":{"a":null}})", Status::schema, "no file name for tensor 'a'"},
    {"a list", "[]", Status::schema, "index: is not an object"},
    {"empty", "", Status::json, "index: "},
    {"one shard in two spellings",
     R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":".//model-00001-of-00002.safetensors"}})",
     Status::shard, "'model-00001-of-00002.safetensors' and './/model-00001-of-00002.safetensors' are the same file"},
    {"two spellings that are not the shortest", R"({"weight_map":{"a":"sub//x/./y","b":"./sub/x/y/"}})", Status::shard,
     "shards './sub/x/y/' and 'sub//x/./y' are the same file"},
    {"two slashes in a row", R"({"weight_map":{"a":"sub/x","b":"sub//x"}})", Status::shard,
     "shards 'sub/x' and 'sub//x' are the same file"},
    {"a dot between slashes", R"({"weight_map":{"a":"sub/x","b":"sub/./x"}})", Status::shard,
     "shards 'sub/x' and 'sub/./x' are the same file"},
    {"a dot at the end", R"({"weight_map":{"a":"sub","b":"sub/."}})", Status::shard,
     "shards 'sub' and 'sub/.' are the same file"},
    {"a slash at the end", R"({"weight_map":{"a":"sub","b":"sub/"}})", Status::shard,
     "shards 'sub' and 'sub/' are the same file"},
    {"another name between two spellings", R"({"weight_map":{"a":"sub/x","b":"sub//x","c":"sub/a"}})", Status::shard,
     "shards 'sub/x' and 'sub//x' are the same file"},
    {"the folder in two spellings", R"({"weight_map":{"a":".","b":"./"}})", Status::shard,
     "shards '.' and './' are the same file"},
    {"no tensor", R"({"weight_map":{}})", Status::schema, "weight_map lists no tensor"},
    {"no tensor, and metadata", R"({"metadata":{"a":"b"},"weight_map":{}})", Status::schema,
     "weight_map lists no tensor"},
    {"trailing comma", R"({"weight_map":{"a":"model-00001-of-00002.safetensors",}})", Status::json, "expected '\"'"},
    {"text after", "{\"weight_map\":{}} x", Status::json, "more text"},
    {"not UTF-8", "{\"weight_map\":{\"\xff\":\"x\"}}", Status::utf8, "index is not UTF-8: byte 0xff at 16"},
    {"deep", "{\"x\":" + std::string(200, '[') + std::string(200, ']') + ",\"weight_map\":{}}", Status::json, "deeper"},
    {"tensor twice",
     R"({"weight_map":{"a":"model-00001-of-00002.safetensors","a":"model-00001-of-00002.safetensors"}})",
     Status::duplicate, "tensor 'a' is listed twice"},
};

TEST_F(OpenModel, BadIndexesAreRefused) {
  put("../outside.safetensors", model(entry("a", 0), 4, 'z'));
  put("twin.safetensors", model(entry("c", 0) + entry("b", 4), 8, 'z'));
  put("empty.safetensors", format::file_front("{}"));
  put("broken.safetensors", std::string("\x02\0\0\0\0\0\0\0{,", 10));
  put("model.bin", "PK\x03\x04 and so on, as torch.save writes it");
  put("sub/model.safetensors", model(entry("a", 0), 4, 'z'));
  for (const BadIndex& bad : kBad) expect_refused(bad);
}

// Truncates and changes a valid index at every byte.
TEST_F(OpenModel, NoByteOfAnIndexIsTrusted) {
  const std::string good = mapping("model-00001-of-00002.safetensors");
  OpenOptions options;
  options.threads = 1;  // starting threads takes longer than opening
  for (std::size_t at = 0; at < good.size(); ++at) {
    put("model.safetensors.index.json", good.substr(0, at));
    EXPECT_EQ(error_of(index(), options).status, Status::json) << at;
    for (const char byte : {'\0', '"', '\\', '}', '/', '\xff'}) {
      std::string changed = good;
      if (changed[at] == byte) continue;
      changed[at] = byte;
      put("model.safetensors.index.json", changed);
      const Error error = error_of(index(), options);
      EXPECT_NE(error.status, Status::ok) << changed;
      EXPECT_NE(error.status, Status::internal) << changed;
    }
  }
}

const BadIndex kHostile[] = {
    {"parent in escapes", mapping("\\u002e\\u002e/outside.safetensors"), Status::shard, "leaves the directory"},
    {"absolute in escapes", mapping("\\u002fetc/passwd"), Status::shard, "is absolute"},
    {"half a surrogate", mapping("\\ud800"), Status::json, "surrogate"},
    {"a raw line feed", mapping("\n"), Status::json, "index: "},
    {"itself", mapping("model.safetensors.index.json"), Status::format, "JSON text"},
    {"tensor in two shards of the map",
     R"({"weight_map":{"a":"model-00001-of-00002.safetensors","a":"model-00002-of-00002.safetensors"}})", Status::shard,
     "tensor 'a' is not in its shard"},
    {"weight_map null", R"({"weight_map":null})", Status::schema, "weight_map is not an object"},
    {"weight_map in escapes, twice", R"({"weight_map":{},"weight\u005fmap":{}})", Status::duplicate, "twice"},
    {"a byte order mark", "\xef\xbb\xbf{\"weight_map\":{}}", Status::json, "expected a value"},
    {"metadata too deep",
     "{\"metadata\":{\"k\":" + std::string(126, '[') + std::string(126, ']') + "},\"weight_map\":{}}", Status::json,
     "deeper"},
    {"metadata that ends early", R"({"weight_map":{},"metadata":{"k":[1,{"x":2}})", Status::json, "index: "},
};

TEST_F(OpenModel, HostileIndexesAreRefused) {
  put("../outside.safetensors", model(entry("a", 0), 4, 'z'));
  for (const BadIndex& bad : kHostile) expect_refused(bad);
}

TEST_F(OpenModel, AFalseClaimIsToldBeforeATensorOfTwoShards) {
  put("model-00002-of-00002.safetensors", model(entry("c", 0) + entry("a", 4), 8, 'y'));
  const std::string map = R"({"weight_map":{"a":"model-00001-of-00002.safetensors",
      "b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors")";
  put("model.safetensors.index.json", map + "}}");
  EXPECT_NE(error_of(index()).message.find("tensor 'a' is in two shards"), std::string::npos);
  put("model.safetensors.index.json", map + R"(,"gone":"model-00002-of-00002.safetensors"}})");
  const Error error = error_of(index());
  EXPECT_NE(error.message.find("tensor 'gone' is not in its shard"), error.message.npos) << error.message;
}

TEST_F(OpenModel, MetadataOfTheIndexComesFirst) {
  put("model.safetensors.index.json",
      R"({"metadata":{"a":"1","format":"np","":null},"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
  const CheckpointPtr file = open(index());
  ASSERT_EQ(file->metadata().size(), 3U);
  EXPECT_EQ(file->metadata("a")->value, "1");
  EXPECT_EQ(file->metadata("format")->value, "np");
  EXPECT_EQ(file->metadata("")->value, "null");
  EXPECT_EQ(file->metadata("b"), nullptr);
}

TEST_F(OpenModel, AMetadataKeyThatTheIndexGivesTwiceHasOneValue) {
  std::string pairs;
  for (int i = 0; i < 300; ++i) pairs += formatted(R"("k{}":"v",)", i);
  const std::string front = R"({"metadata":{"a":"1",)" + pairs;
  put("model.safetensors.index.json",
      front + R"(  "a":{"b":2}},"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
  for (const format::Rules rules : {format::Rules::standard, format::Rules::strict}) {
    OpenOptions options;
    options.header.rules = rules;
    const Error error = error_of(index(), options);
    EXPECT_EQ(error.status, Status::duplicate);
    EXPECT_EQ(error.message, "index: metadata key 'a' occurs twice");
    EXPECT_EQ(error.offset, front.size() + 2);
  }
  OpenOptions reference;
  reference.header.rules = format::Rules::reference;
  const CheckpointPtr file = open(index(), reference);
  EXPECT_EQ(file->metadata("a")->value, R"({"b":2})");
  EXPECT_EQ(file->metadata()[0].value, R"({"b":2})");
  ASSERT_EQ(file->metadata().size(), 302U);  // one is the first shard's
  for (const format::MetadataPair& pair : file->metadata()) EXPECT_EQ(file->metadata(pair.key), &pair) << pair.key;
}

TEST_F(OpenModel, AnEmptyMapIsMetadataAndNoneIsNot) {
  const auto file_with = [](const std::string& metadata) {
    const std::string header = "{" + metadata + R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
    return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header;
  };
  const struct {
    const char* metadata;
    bool has;
  } cases[] = {{"", false}, {R"("__metadata__":{},)", true}, {R"("__metadata__":{"k":"v"},)", true}};
  for (const auto& [metadata, has] : cases) {
    put("one/model.safetensors", file_with(metadata));
    EXPECT_EQ(open(folder / "one/model.safetensors")->has_metadata(), has);
    EXPECT_EQ(open(folder / "one")->has_metadata(), has);  // the same file
  }
  EXPECT_TRUE(open(folder)->has_metadata());
}

// For an index and its shards together: one pair anywhere counts as metadata.
TEST_F(OpenModel, HasMetadataWhenTheIndexOrTheFirstShardHasAPair) {
  const std::string tensors = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  const auto file_of = [](const std::string& header) {
    return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header;
  };
  for (const bool of_index : {false, true}) {
    for (const bool of_shard : {false, true}) {
      put("some/m-00001-of-00001.safetensors",
          file_of("{" + std::string(of_shard ? R"("__metadata__":{"k":"v"},)" : "") + tensors));
      put("some/m.safetensors.index.json", "{" + std::string(of_index ? R"("metadata":{"i":"x"},)" : "") +
                                               R"("weight_map":{"a":"m-00001-of-00001.safetensors"}})");
      const CheckpointPtr file = open(folder / "some/m.safetensors.index.json");
      EXPECT_EQ(file->has_metadata(), of_index || of_shard);
      EXPECT_EQ(file->metadata().size(), (of_index ? 1U : 0U) + (of_shard ? 1U : 0U));
      EXPECT_EQ(file->metadata("i") != nullptr, of_index);
      EXPECT_EQ(file->metadata("k") != nullptr, of_shard);
      EXPECT_EQ(file->format(), Format::safetensors);
    }
  }
}

TEST(ErrorOfShard, NamesTheShardOnceAndTheIndexIfTheShardIsMissing) {
  const int missing = io::no_such_file();
  const struct {
    Error error;
    const char* path;
    const char* index;
    Status status;
    const char* message;
  } cases[] = {
      {{Status::open, missing, kNowhere, "gone"}, "", "", Status::shard, "shard 's' is missing"},
      {{Status::open, missing, kNowhere, "gone"}, "", "i", Status::shard, "index 'i': shard 's' is missing"},
      {{Status::read, missing, kNowhere, "gone"}, "", "i", Status::read, "shard 's': gone"},
      {{Status::json, 0, kNowhere, "'folder/s': bad"}, "", "i", Status::json, "'folder/s': bad"},
      {{Status::json, 0, kNowhere, "'store:1': bad"}, "store:1", "i", Status::json, "'store:1': bad"},
      {{Status::json, 0, kNowhere, "bad"}, "store:1", "i", Status::json, "shard 's': bad"},
      {{Status::json, 0, kNowhere, "tensor '': bad"}, "", "i", Status::json, "shard 's': tensor '': bad"},
  };
  for (const auto& [given, path, of, status, message] : cases) {
    const Error error = error_of_shard(given, "s", path, of);
    EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(status)) << message;
    EXPECT_EQ(error.message, message);
  }
}

// Invalid names are rejected before any file is opened.
TEST_F(OpenModel, AThousandSpellingsOfOneShardOpenNoFile) {
  std::string map;
  for (std::size_t i = 0; i < 1000; ++i) {
    map += formatted(R"({}"t{}":".{}x.safetensors")", i == 0 ? "" : ",", i, std::string(1 + i, '/'));
  }
  put("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const Error error = error_of(index());  // and not that it is missing
  EXPECT_EQ(error.status, Status::shard);
  EXPECT_TRUE(error.message.ends_with(" are the same file")) << error.message;
}

// The headers of a whole batch are summed before memory is allocated for them, so the message does not depend on threads.
TEST_F(OpenModel, TheHeadersOfAllShardsAreBounded) {
  put("model.safetensors.index.json", kGood);
  const std::uint64_t sum = [this] {
    const CheckpointPtr file = open(index());
    return file->shard(0).header.size() + file->shard(1).header.size();
  }();
  OpenOptions options;
  options.max_headers_bytes = sum;
  EXPECT_EQ(open(index(), options)->count_tensors(), 3U);
  for (const Finding& finding : check(index().c_str(), options)) EXPECT_TRUE(finding.is_note) << finding.fault.message;
  options.max_headers_bytes = sum - 1;
  for (const unsigned threads : {1U, 4U}) {
    options.threads = threads;
    const Error error = error_of(index(), options);
    EXPECT_EQ(error.status, Status::header_size);
    EXPECT_EQ(
        error.message,
        formatted(
            "'model.safetensors.index.json': the headers of the first 2 shards have {} bytes, above the limit of {}",
            sum, sum - 1));
  }
  const Report report = check(index().c_str(), options);
  ASSERT_EQ(report.size(), 1U);
  EXPECT_EQ(*report[0].path, index());
  EXPECT_EQ(report[0].fault.status, Status::header_size);
  EXPECT_EQ(report[0].fault.message, error_of(index(), options).message);
  fs::remove(index());
  EXPECT_EQ(error_of(folder, options).message,
            formatted("{}: the headers of the first 2 shards have {} bytes, above the limit of {}",
                      in_quotes(folder.string()), sum, sum - 1));
}

// Files that look like shards may have longer headers than the shards that the index names.
TEST_F(OpenModel, HeadersOfFilesThatTheIndexDoesNotNameDoNotCount) {
  put("model.safetensors.index.json", R"({"weight_map":{"c":"model-00002-of-00002.safetensors"}})");
  OpenOptions options;
  options.max_headers_bytes = open(folder / "model-00002-of-00002.safetensors")->shard(0).header.size();
  EXPECT_EQ(open(index(), options)->count_tensors(), 1U);
}

// An index of one shard is not ignored.
TEST_F(OpenModel, TheIndexOfOneShardCounts) {
  put("one/m-00001-of-00001.safetensors", model(entry("a", 0), 4, 'x'));
  put("one/m.safetensors.index.json",
      R"({"metadata":{"author":"x"},"weight_map":{"a":"m-00001-of-00001.safetensors"}})");
  EXPECT_NE(open(folder / "one/m.safetensors.index.json")->metadata("author"), nullptr);
  put("one/m.safetensors.index.json",
      R"({"weight_map":{"a":"m-00001-of-00001.safetensors","b":"m-00001-of-00001.safetensors"}})");
  EXPECT_EQ(error_of(folder / "one/m.safetensors.index.json").status, Status::shard);
}

// More shards than the index has room for initially, and each occurs again later in the list.
TEST_F(OpenModel, AShardIsKnownAgainHoweverManyCameBetween) {
  constexpr std::size_t kMany = 150;
  std::string map;
  for (const char* const tensor : {"a", "b"}) {
    for (std::size_t i = 0; i < kMany; ++i) {
      map += formatted(R"({}"{}{}":"{}.safetensors")", map.empty() ? "" : ",", tensor, i, i * 7 % kMany);
    }
  }
  for (std::size_t i = 0; i < kMany; ++i) {
    put(formatted("many/{}.safetensors", i * 7 % kMany),
        model(entry(formatted("a{}", i), 0) + entry(formatted("b{}", i), 4), 8, 'x'));
  }
  put("many/model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const CheckpointPtr file = open(folder / "many/model.safetensors.index.json");
  EXPECT_EQ(file->count_shards(), kMany);
  EXPECT_EQ(file->count_tensors(), 2 * kMany);
}

// Shards are opened in batches. The first missing one is reported, wherever it is.
TEST_F(OpenModel, OfManyShardsTheFirstMissingOneIsTold) {
  constexpr std::size_t kMany = 600;
  std::string map;
  for (std::size_t i = 0; i < kMany; ++i) {
    const std::string name = formatted("part-{:04}.safetensors", i);
    put(name, model(entry(formatted("t{}", i), 0), 4, 'z'));
    map += formatted(R"({}"t{}":"{}")", i == 0 ? "" : ",", i, name);
  }
  put("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  CheckpointPtr file = open(index());
  ASSERT_EQ(file->count_shards(), kMany);
  for (std::size_t i = 0; i < kMany; ++i) EXPECT_EQ(shard_of(*file->tensor(formatted("t{}", i))).number, i);
  file.reset();  // on Windows a name may persist until the file's last handle is closed
  for (const char* const name : {"part-0599.safetensors", "part-0300.safetensors", "part-0299.safetensors"}) {
    fs::remove(folder / name);
    const std::string message = error_of(index()).message;
    EXPECT_NE(message.find(formatted("shard '{}' is missing", name)), std::string::npos) << message;
  }
}

TEST_F(OpenModel, StaleSizesAreTaken) {
  put("model.safetensors.index.json",
      R"({"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
  EXPECT_EQ(open(index())->count_tensors(), 2U);
}

// Numbered shards are opened while the index is read, and are dropped if the index does not name them.
TEST_F(OpenModel, FilesThatTheIndexDoesNotNameDoNoHarm) {
  put("model.safetensors.index.json", kGood);
  put("model-00003-of-00002.safetensors", "no model at all");
  put("model-00004-of-00002.safetensors", model(entry("a", 0), 4, 'z'));
  fs::create_directory(folder / "model-00006-of-00002.safetensors");
  for (const fs::path& path : {fs::path(index()), folder}) {
    const CheckpointPtr file = open(path);
    EXPECT_EQ(file->count_tensors(), 3U);
    EXPECT_EQ(file->count_shards(), 2U);
    EXPECT_TRUE(file->warnings().empty());
    EXPECT_EQ(fs::path(file->shard(1).path).filename(), "model-00002-of-00002.safetensors");
  }
}

TEST_F(OpenModel, HugeIndexesAreRefusedUnread) {
  put("model.safetensors.index.json", "{");
  fs::resize_file(index(), 100'000'001);
  EXPECT_EQ(error_of(index()).status, Status::header_size);
  OpenOptions small;
  put("model.safetensors.index.json", kGood);
  small.header.max_bytes = std::string_view(kGood).size();
  EXPECT_EQ(open(index(), small)->count_tensors(), 3U);
  --small.header.max_bytes;
  EXPECT_EQ(error_of(index(), small).status, Status::header_size);
}

}  // namespace
}  // namespace st::core::open_shards_test
