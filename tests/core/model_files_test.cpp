// Finding the files of a model in a directory.
// SPDX-License-Identifier: Apache-2.0
#include "core/model_files.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "core/check.hpp"
#include "shards.hpp"

namespace st::core::model_files_test {
namespace {

class ModelFilesTest : public ShardsTest {};

TEST_F(ModelFilesTest, NeedNoIndexIfShardsAreNumbered) {
  const CheckpointPtr file = open(folder);
  EXPECT_EQ(file->count_tensors(), 3U);
  EXPECT_NE(file->tensor("b"), nullptr);
}

TEST_F(ModelFilesTest, FoldersSayWhatIsMissing) {
  const auto message_of = [this](const fs::path& path) { return error_of(path).message; };
  fs::remove(folder / "model-00001-of-00002.safetensors");
  EXPECT_NE(message_of(folder).find("shard 1 of 2 of 'model' is missing"), std::string::npos);
  fs::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_NE(message_of(folder).find("contains no safetensors file"), std::string::npos);
  put("one.safetensors", model(entry("a", 0), 4, 'z'));
  EXPECT_EQ(open(folder)->count_tensors(), 1U);
  put("two.safetensors", model(entry("b", 0), 4, 'z'));
  EXPECT_NE(message_of(folder).find("contains several models, 'one.safetensors' and 'two.safetensors'"),
            std::string::npos);
  put("model.safetensors", model(entry("c", 0), 4, 'z'));
  EXPECT_NE(open(folder)->tensor("c"), nullptr);
  EXPECT_EQ(error_of(root / "nowhere").status, Status::open);
}

TEST_F(ModelFilesTest, NumberedShardsOfSeveralModelsAreNotMixed) {
  fs::remove(folder / "model-00002-of-00002.safetensors");  // a complete set of this name wins
  for (const char* const other : {"other-00001-of-00002.safetensors", "model-00001-of-00003.safetensors"}) {
    put(other, model(entry("d", 0), 4, 'z'));
    const Error error = error_of(folder);
    EXPECT_EQ(error.status, Status::open);
    EXPECT_NE(error.message.find("contains shards of several models"), std::string::npos) << error.message;
    fs::remove(folder / other);
  }
}

TEST_F(ModelFilesTest, AWordWhereANumberShouldBeMakesNoShard) {
  for (const char* const shard : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    fs::remove(folder / shard);
  }
  for (const char* const name :
       {"model-x-of-2.safetensors", "model1-of-2.safetensors", "1-of-2.safetensors", "model-1-of-.safetensors",
        "model--of-2.safetensors", "model-1-of-18446744073709551616.safetensors"}) {
    put(name, model(entry("d", 0), 4, 'z'));
    EXPECT_NE(open(folder)->tensor("d"), nullptr) << name;
    fs::remove(folder / name);
  }
}

TEST_F(ModelFilesTest, AnIndexMayHaveAnyNameThatEndsAsOne) {
  put("mine.index.json", kGood);
  EXPECT_EQ(open(folder / "mine.index.json")->count_tensors(), 3U);
  put("model.safetensors.index.fp16.json", kGood);
  EXPECT_EQ(open(folder / "model.safetensors.index.fp16.json")->count_tensors(), 3U);
  for (const char* name :
       {"index.json.safetensors", "mine.index.a/b.json", "mine.index/b.json", "mineindex.json", "index.fp16.json"}) {
    EXPECT_FALSE(is_index_name(name)) << name;
  }
  EXPECT_EQ(files_of_model("/mine.index.json").directory->path(), "/");
  EXPECT_EQ(files_of_model("mine.index.json").directory->path(), ".");
}

TEST_F(ModelFilesTest, NoIncompleteSetOfNumberedShardsIsAModel) {
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

TEST_F(ModelFilesTest, NumbersOfShardsAreNumbers) {
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

TEST_F(ModelFilesTest, ACompleteSetNamedModelWinsOverAnotherFile) {
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
TEST_F(ModelFilesTest, ADirectoryStandsForTheFirstOfTheList) {
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
      {{"pytorch_model.bin.index.json", "index.json"}, nullptr, "contains no safetensors file"},
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
       "'m-1-of-1.safetensors' and 'n-1-of-1.safetensors': write an index for one, or move one elsewhere"},
      {{"._vae.safetensors", "vae.safetensors"}, "vae.safetensors"},
      {{"._m-1-of-1.safetensors", "m-1-of-1.safetensors"}, "m-1-of-1.safetensors"},
      {{"._a.safetensors.index.json", "a.safetensors.index.json", "shard.safetensors"}, "shard.safetensors"},
      {{"._vae.safetensors"}, nullptr, "contains no safetensors file"},
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
}  // namespace st::core::model_files_test
