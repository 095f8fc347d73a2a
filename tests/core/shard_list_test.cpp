// Opening many files as one: what an index may say, where its shards may lie, and how each disagreement is told.
// SPDX-License-Identifier: Apache-2.0
#include "core/shard_list.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/check.hpp"
#include "shards.hpp"

namespace st::core {
namespace {

TEST_F(ShardListTest, AreOneFile) {
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

TEST_F(ShardListTest, NeedNoIndexWhereShardsAreNumbered) {
  const CheckpointPtr file = open(folder);
  EXPECT_EQ(file->count_tensors(), 3U);
  EXPECT_NE(file->tensor("b"), nullptr);
}

TEST_F(ShardListTest, MayListTensorsThatTheIndexForgot) {
  put("model.safetensors.index.json",
      R"({"weight_map":{"a":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})");
  const CheckpointPtr file = open(index());
  EXPECT_EQ(file->count_tensors(), 3U);
  ASSERT_EQ(file->warnings().size(), 1U);
  EXPECT_NE(file->warnings()[0].find("holds 1 tensors that the index does not list, the first is 'b'"),
            std::string::npos);
  OpenOptions strict;
  strict.header.rules = format::Rules::strict;
  EXPECT_EQ(error_of(index(), strict).status, Status::shard);
}

const BadIndex kBad[] = {
    {"absolute", mapping("/etc/passwd"), Status::shard, "is absolute"},
    {"parent", mapping("../outside.safetensors"), Status::shard, "leaves the folder"},
    {"parent inside", mapping("a/../../b"), Status::shard, "leaves the folder"},
    {"parent at the end", mapping("sub/.."), Status::shard, "leaves the folder"},
    {"only parent", mapping(".."), Status::shard, "leaves the folder"},
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
    {"tensor in two shards", mapping("model-00001-of-00002.safetensors", "twin.safetensors"), Status::shard,
     "is in two shards"},
    {"folder as shard", mapping("sub"), Status::open, "is a folder"},
    {"broken shard", mapping("broken.safetensors"), Status::json, "broken.safetensors': "},
    {"pickle as shard", mapping("model.bin"), Status::format, "zip archive"},
    {"weight_map absent", "{}", Status::schema, "has no weight_map"},
    {"weight_map a list", R"({"weight_map":[]})", Status::schema, "weight_map is not an object"},
    {"weight_map twice", R"({"weight_map":{},"weight_map":{}})", Status::duplicate, "weight_map is given twice"},
    {"metadata twice", R"({"metadata":{},"metadata":{},"weight_map":{}})", Status::duplicate,
     "metadata is given twice"},
    {"metadata a list", R"({"metadata":[],"weight_map":{}})", Status::schema, "metadata is not an object"},
    {"file a number", R"({"weight_map":{"a":1}})", Status::schema, "no file name for tensor 'a'"},
    {"file null", R"({"weight_map":{"a":null}})", Status::schema, "no file name for tensor 'a'"},
    {"a list", "[]", Status::schema, "index: is not an object"},
    {"empty", "", Status::json, "index: "},
    {"one shard in two spellings",
     R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":".//model-00001-of-00002.safetensors"}})",
     Status::shard, "'model-00001-of-00002.safetensors' and './/model-00001-of-00002.safetensors' are one file"},
    {"two spellings that are not the shortest", R"({"weight_map":{"a":"sub//x/./y","b":"./sub/x/y/"}})", Status::shard,
     "shards './sub/x/y/' and 'sub//x/./y' are one file"},
    {"the folder in two spellings", R"({"weight_map":{"a":".","b":"./"}})", Status::shard,
     "shards '.' and './' are one file"},
    {"no tensor", R"({"weight_map":{}})", Status::schema, "weight_map lists no tensor"},
    {"no tensor, and metadata", R"({"metadata":{"a":"b"},"weight_map":{}})", Status::schema,
     "weight_map lists no tensor"},
    {"trailing comma", R"({"weight_map":{"a":"model-00001-of-00002.safetensors",}})", Status::json, "expected '\"'"},
    {"text after", "{\"weight_map\":{}} x", Status::json, "more text"},
    {"not UTF-8", "{\"weight_map\":{\"\xff\":\"x\"}}", Status::utf8, "index is not UTF-8: byte 0xff at 16"},
    {"deep", "{\"x\":" + std::string(200, '[') + std::string(200, ']') + ",\"weight_map\":{}}", Status::json, "deeper"},
    {"tensor twice",
     R"({"weight_map":{"a":"model-00001-of-00002.safetensors","a":"model-00001-of-00002.safetensors"}})",
     Status::duplicate, "tensor 'a' is given twice"},
};

TEST_F(ShardListTest, BadIndexesAreRefused) {
  put("../outside.safetensors", model(entry("a", 0), 4, 'z'));
  put("twin.safetensors", model(entry("c", 0) + entry("b", 4), 8, 'z'));
  put("broken.safetensors", std::string("\x02\0\0\0\0\0\0\0{,", 10));
  put("model.bin", "PK\x03\x04 and so on, as torch.save writes it");
  put("sub/model.safetensors", model(entry("a", 0), 4, 'z'));
  for (const BadIndex& bad : kBad) expect_refused(bad);
}

// Each of these is an index that somebody may send; all begin well.
TEST_F(ShardListTest, NoByteOfAnIndexIsTrusted) {
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
    {"parent in escapes", mapping("\\u002e\\u002e/outside.safetensors"), Status::shard, "leaves the folder"},
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

TEST_F(ShardListTest, HostileIndexesAreRefused) {
  put("../outside.safetensors", model(entry("a", 0), 4, 'z'));
  for (const BadIndex& bad : kHostile) expect_refused(bad);
}

TEST_F(ShardListTest, AFalseClaimIsToldBeforeATensorOfTwoShards) {
  put("model-00002-of-00002.safetensors", model(entry("c", 0) + entry("a", 4), 8, 'y'));
  const std::string map = R"({"weight_map":{"a":"model-00001-of-00002.safetensors",
      "b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors")";
  put("model.safetensors.index.json", map + "}}");
  EXPECT_NE(error_of(index()).message.find("tensor 'a' is in two shards"), std::string::npos);
  put("model.safetensors.index.json", map + R"(,"gone":"model-00002-of-00002.safetensors"}})");
  const Error error = error_of(index());
  EXPECT_NE(error.message.find("tensor 'gone' is not in its shard"), error.message.npos) << error.message;
}

TEST_F(ShardListTest, MetadataOfTheIndexComesFirst) {
  put("model.safetensors.index.json",
      R"({"metadata":{"a":"1","format":"np","":null},"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
  const CheckpointPtr file = open(index());
  ASSERT_EQ(file->metadata().size(), 3U);
  EXPECT_EQ(file->metadata("a")->value, "1");
  EXPECT_EQ(file->metadata("format")->value, "np");
  EXPECT_EQ(file->metadata("")->value, "null");
  EXPECT_EQ(file->metadata("b"), nullptr);
}

TEST_F(ShardListTest, AMetadataKeyThatTheIndexGivesTwiceHasOneValue) {
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
    EXPECT_EQ(error.message, "index: metadata key 'a' is given twice");
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

TEST_F(ShardListTest, AnEmptyMapIsMetadataAndNoneIsNot) {
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

// Of an index and its shards together: a pair anywhere is metadata.
TEST_F(ShardListTest, HaveMetadataWhenTheIndexOrTheFirstShardHasAPair) {
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

// Names are refused before a file is opened.
TEST_F(ShardListTest, AThousandSpellingsOfOneShardOpenNoFile) {
  std::string map;
  for (std::size_t i = 0; i < 1000; ++i) {
    map += formatted(R"({}"t{}":".{}x.safetensors")", i == 0 ? "" : ",", i, std::string(1 + i, '/'));
  }
  put("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const Error error = error_of(index());  // and not that it is missing
  EXPECT_EQ(error.status, Status::shard);
  EXPECT_TRUE(error.message.ends_with(" are one file")) << error.message;
}

// Counted before memory is taken for them, in all shards of a batch: so the message does not depend on the threads.
TEST_F(ShardListTest, TheHeadersOfAllShardsAreBounded) {
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
        formatted("'model.safetensors.index.json': the headers of the first 2 shards have {} bytes, the limit is {}",
                  sum, sum - 1));
  }
  const Report report = check(index().c_str(), options);
  ASSERT_EQ(report.size(), 1U);
  EXPECT_EQ(*report[0].path, index());
  EXPECT_EQ(report[0].fault.status, Status::header_size);
  EXPECT_EQ(report[0].fault.message, error_of(index(), options).message);
  fs::remove(index());
  EXPECT_EQ(error_of(folder, options).message,
            formatted("{}: the headers of the first 2 shards have {} bytes, the limit is {}",
                      in_quotes(folder.string()), sum, sum - 1));
}

// The guess which shards there are may have longer headers than what the index names.
TEST_F(ShardListTest, HeadersOfFilesThatTheIndexDoesNotNameDoNotCount) {
  put("model.safetensors.index.json", R"({"weight_map":{"c":"model-00002-of-00002.safetensors"}})");
  OpenOptions options;
  options.max_headers_bytes = open(folder / "model-00002-of-00002.safetensors")->shard(0).header.size();
  EXPECT_EQ(open(index(), options)->count_tensors(), 1U);
}

// One shard is no reason to pass its index over.
TEST_F(ShardListTest, TheIndexOfOneShardCounts) {
  put("one/m-00001-of-00001.safetensors", model(entry("a", 0), 4, 'x'));
  put("one/m.safetensors.index.json",
      R"({"metadata":{"author":"x"},"weight_map":{"a":"m-00001-of-00001.safetensors"}})");
  EXPECT_NE(open(folder / "one/m.safetensors.index.json")->metadata("author"), nullptr);
  put("one/m.safetensors.index.json",
      R"({"weight_map":{"a":"m-00001-of-00001.safetensors","b":"m-00001-of-00001.safetensors"}})");
  EXPECT_EQ(error_of(folder / "one/m.safetensors.index.json").status, Status::shard);
}

// Each of more shards than the index is first given room for comes back later in the list.
TEST_F(ShardListTest, AShardIsKnownAgainHoweverManyCameBetween) {
  constexpr std::size_t kShards = 150;
  std::string map;
  for (const char* const tensor : {"a", "b"}) {
    for (std::size_t i = 0; i < kShards; ++i) {
      map += formatted(R"({}"{}{}":"{}.safetensors")", map.empty() ? "" : ",", tensor, i, i * 7 % kShards);
    }
  }
  for (std::size_t i = 0; i < kShards; ++i) {
    put(formatted("many/{}.safetensors", i * 7 % kShards),
        model(entry(formatted("a{}", i), 0) + entry(formatted("b{}", i), 4), 8, 'x'));
  }
  put("many/model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const CheckpointPtr file = open(folder / "many/model.safetensors.index.json");
  EXPECT_EQ(file->count_shards(), kShards);
  EXPECT_EQ(file->count_tensors(), 2 * kShards);
}

// They are opened in batches; the first that is missing is told, wherever it stands.
TEST_F(ShardListTest, OfManyShardsTheFirstMissingOneIsTold) {
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
  file.reset();  // on Windows a name may stay until nobody has the file open
  for (const char* const name : {"part-0599.safetensors", "part-0300.safetensors", "part-0299.safetensors"}) {
    fs::remove(folder / name);
    const std::string message = error_of(index()).message;
    EXPECT_NE(message.find(formatted("shard '{}' is missing", name)), std::string::npos) << message;
  }
}

TEST_F(ShardListTest, StaleSizesAreTaken) {
  put("model.safetensors.index.json",
      R"({"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
  EXPECT_EQ(open(index())->count_tensors(), 2U);
}

// Numbered shards are opened while the index is read, and count for nothing when it does not name them.
TEST_F(ShardListTest, FilesThatTheIndexDoesNotNameDoNoHarm) {
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

TEST_F(ShardListTest, HugeIndexesAreRefusedUnread) {
  put("model.safetensors.index.json", "{");
  fs::resize_file(index(), 100'000'001);
  EXPECT_EQ(error_of(index()).status, Status::header_size);
  OpenOptions small;
  small.header.max_bytes = 100;
  put("model.safetensors.index.json", kGood);
  EXPECT_EQ(error_of(index(), small).status, Status::header_size);
}

TEST_F(ShardListTest, FoldersSayWhatIsMissing) {
  const auto message_of = [this](const fs::path& path) { return error_of(path).message; };
  fs::remove(folder / "model-00001-of-00002.safetensors");
  EXPECT_NE(message_of(folder).find("shard 1 of 2 of 'model' is missing"), std::string::npos);
  fs::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_NE(message_of(folder).find("holds no safetensors file"), std::string::npos);
  put("one.safetensors", model(entry("a", 0), 4, 'z'));
  EXPECT_EQ(open(folder)->count_tensors(), 1U);
  put("two.safetensors", model(entry("b", 0), 4, 'z'));
  EXPECT_NE(message_of(folder).find("holds several models, 'one.safetensors' and 'two.safetensors'"),
            std::string::npos);
  put("model.safetensors", model(entry("c", 0), 4, 'z'));
  EXPECT_NE(open(folder)->tensor("c"), nullptr);
  EXPECT_EQ(error_of(root / "nowhere").status, Status::open);
}

TEST_F(ShardListTest, NumberedShardsOfSeveralModelsAreNotMixed) {
  fs::remove(folder / "model-00002-of-00002.safetensors");  // a complete set of this name wins
  for (const char* const other : {"other-00001-of-00002.safetensors", "model-00001-of-00003.safetensors"}) {
    put(other, model(entry("d", 0), 4, 'z'));
    const Error error = error_of(folder);
    EXPECT_EQ(error.status, Status::open);
    EXPECT_NE(error.message.find("holds shards of several models"), std::string::npos) << error.message;
    fs::remove(folder / other);
  }
}

TEST_F(ShardListTest, AWordWhereANumberShouldBeMakesNoShard) {
  for (const char* const shard : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    fs::remove(folder / shard);
  }
  for (const char* const name : {"model-x-of-2.safetensors", "model1-of-2.safetensors", "1-of-2.safetensors"}) {
    put(name, model(entry("d", 0), 4, 'z'));
    EXPECT_NE(open(folder)->tensor("d"), nullptr) << name;
    fs::remove(folder / name);
  }
}

TEST_F(ShardListTest, AnIndexMayHaveAnyNameThatEndsAsOne) {
  put("mine.index.json", kGood);
  EXPECT_EQ(open(folder / "mine.index.json")->count_tensors(), 3U);
  EXPECT_EQ(shards_of_index("/mine.index.json").folder->path(), "/");
  EXPECT_EQ(shards_of_index("mine.index.json").folder->path(), ".");
}

TEST_F(ShardListTest, NoIncompleteSetOfNumberedShardsIsAModel) {
  for (unsigned shards = 1; shards <= 5; ++shards) {
    for (unsigned there = 1; there < 1U << shards; ++there) {
      const std::string set = formatted("sets/{}-{}", shards, there);
      for (unsigned i = 0; i < shards; ++i) {
        if ((there >> i & 1) == 0) continue;
        put(formatted("{}/m-{:05}-of-{:05}.safetensors", set, i + 1, shards),
            model(entry(formatted("t{}", i), 0), 4, 'z'));
      }
      const auto missing = static_cast<unsigned>(std::countr_one(there));
      const std::string expected =
          missing == shards ? "" : formatted("shard {} of {} of 'm' is missing", missing + 1, shards);
      const std::string message = error_of(folder / set).message;
      EXPECT_EQ(message.empty(), expected.empty()) << set << ": " << message;
      EXPECT_NE(message.find(expected), std::string::npos) << set << ": " << message;
    }
  }
  for (const char* const name : {"m-1-of-2", "m-01-of-2"}) {
    put(formatted("twice/{}.safetensors", name), model(entry(name, 0), 4, 'z'));
  }
  const Error error = error_of(folder / "twice");
  EXPECT_EQ(error.status, Status::open);
  EXPECT_NE(error.message.find("'m-01-of-2.safetensors' and 'm-1-of-2.safetensors' are both shard 1 of 2"),
            std::string::npos)
      << error.message;
}

TEST_F(ShardListTest, NumbersOfShardsAreNumbers) {
  for (int i = 1; i <= 10; ++i) {
    put(formatted("numbers/m-{}-of-{}.safetensors", i, i == 7 ? "0010" : "10"),
        model(entry(formatted("t{}", i), 0), 4, 'z'));
  }
  const CheckpointPtr file = open(folder / "numbers");
  ASSERT_EQ(file->count_shards(), 10U);
  for (unsigned i = 1; i <= 10; ++i) EXPECT_EQ(shard_of(*file->tensor(formatted("t{}", i))).number, i - 1);
  for (const char* const outside : {"m-0-of-10", "m-11-of-10"}) {
    put(formatted("numbers/{}.safetensors", outside), model(entry("x", 0), 4, 'z'));
    const Error error = error_of(folder / "numbers");
    EXPECT_EQ(error.status, Status::shard);
    EXPECT_NE(error.message.find(formatted("the number of '{}.safetensors' is not from 1 to 10", outside)),
              std::string::npos)
        << error.message;
    fs::remove(folder / formatted("numbers/{}.safetensors", outside));
  }
}

TEST_F(ShardListTest, ACompleteSetNamedModelWinsOverAnotherFile) {
  put("consolidated.safetensors", model(entry("z", 0), 4, 'z'));
  const CheckpointPtr checkpoint = open(folder);
  EXPECT_EQ(checkpoint->count_shards(), 2U);
  EXPECT_EQ(checkpoint->tensor("z"), nullptr);
  for (const Finding& finding : check(folder.string().c_str(), {})) EXPECT_TRUE(finding.is_note);
  put("model-00001-of-00003.safetensors", model(entry("y", 0), 4, 'z'));
  EXPECT_EQ(error_of(folder).status, Status::open);
}

struct Directory {
  std::vector<const char*> files;  // each with a tensor of its name; an index lists that of shard.safetensors
  const char* opened;              // or nullptr
  const char* message = "";
};

// docs/format.md 2.4
TEST_F(ShardListTest, ADirectoryStandsForTheFirstOfTheList) {
  const char* const kModelIndex = "model.safetensors.index.json";
  const Directory cases[] = {
      {{kModelIndex, "a.safetensors.index.json", "model.safetensors", "shard.safetensors"}, "shard.safetensors"},
      {{"a.safetensors.index.json", "model.safetensors", "shard.safetensors"}, "model.safetensors"},
      {{"model.safetensors", "vae.safetensors", "m-1-of-1.safetensors"}, "model.safetensors"},
      {{"a.safetensors.index.json", "vae.safetensors", "m-1-of-1.safetensors", "shard.safetensors"},
       "shard.safetensors"},
      {{"a.safetensors.index.json", "model.safetensors.index.json.safetensors.index.json", "shard.safetensors"},
       nullptr,
       "several models, 'a.safetensors.index.json' and 'model.safetensors.index.json.safetensors.index.json'"},
      {{"model.safetensors.old.safetensors", "vae.safetensors"},
       nullptr,
       "several models, 'model.safetensors.old.safetensors' and 'vae.safetensors'"},
      {{"adapter_model.safetensors", "m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"},
       nullptr,
       "several models, 'adapter_model.safetensors' and 'm-00001-of-00002.safetensors'"},
      {{"pytorch_model.bin.index.json", "vae.safetensors"}, "vae.safetensors"},
      {{"pytorch_model.bin.index.json", "index.json"}, nullptr, "holds no safetensors file"},
      {{"vae.safetensors.bak", "vae.safetensors"}, "vae.safetensors"},
      {{"m-1-of-1.safetensors"}, "m-1-of-1.safetensors"},
      {{"consolidated.safetensors", "model-1-of-1.safetensors"}, "model-1-of-1.safetensors"},
      {{"consolidated.safetensors", "extra.safetensors", "m-1-of-1.safetensors", "model-1-of-1.safetensors"},
       "model-1-of-1.safetensors"},
      {{"consolidated.safetensors", "model-1-of-1.safetensors", "model.safetensors"}, "model.safetensors"},
      {{"a.safetensors.index.json", "model-1-of-1.safetensors", "shard.safetensors"}, "shard.safetensors"},
      {{"consolidated.safetensors", "model-00001-of-00002.safetensors"},
       nullptr,
       "'consolidated.safetensors' and 'model-00001-of-00002.safetensors': open the file, or write an index for the "
       "shards"},
      {{"consolidated.safetensors", "my-model-1-of-1.safetensors"}, nullptr, "several models"},
      {{"m-1-of-1.safetensors", "n-1-of-1.safetensors"},
       nullptr,
       "'m-1-of-1.safetensors' and 'n-1-of-1.safetensors': write an index for one, or move one to another folder"},
      {{"._vae.safetensors", "vae.safetensors"}, "vae.safetensors"},
      {{"._m-1-of-1.safetensors", "m-1-of-1.safetensors"}, "m-1-of-1.safetensors"},
      {{"._a.safetensors.index.json", "a.safetensors.index.json", "shard.safetensors"}, "shard.safetensors"},
      {{"._vae.safetensors"}, nullptr, "holds no safetensors file"},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    const fs::path here = folder / formatted("case-{}", i);
    for (const std::string name : cases[i].files) {
      put((here.filename() / name).string(), name.ends_with(".json")
                                                 ? R"({"weight_map":{"shard.safetensors":"shard.safetensors"}})"
                                                 : model(entry(name, 0), 4, 'z'));
    }
    const Error error = error_of(here);
    EXPECT_NE(error.message.find(cases[i].message), std::string::npos) << error.message;
    if (cases[i].opened == nullptr) {
      EXPECT_EQ(error.status, Status::open);
      continue;
    }
    ASSERT_EQ(error.status, Status::ok) << error.message;
    EXPECT_EQ(open(here)->count_shards(), 1U);
    EXPECT_NE(open(here)->tensor(cases[i].opened), nullptr);
  }
}

}  // namespace
}  // namespace st::core
