// A model of two shards in a directory of its own, and helpers that make faulty indexes and shards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../format/file_front.hpp"
#include "../io/fresh_folder.hpp"
#include "base/error.hpp"
#include "core/checkpoint.hpp"

namespace st::core {

namespace fs = std::filesystem;

inline std::string model(const std::string& tensors, std::size_t bytes, char fill) {
  return format::file_front(R"({"__metadata__":{"format":"pt"})" + tensors + "}") + std::string(bytes, fill);
}

inline std::string entry(const std::string& name, std::size_t begin) {
  return formatted(R"(,"{}":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}})", name, begin, begin + 4);
}

struct BadIndex {
  const char* fault;
  std::string text;
  Status status;
  const char* message;
};

inline std::string mapping(const std::string& a, const std::string& c = "model-00002-of-00002.safetensors") {
  return formatted(R"({{"weight_map":{{"a":"{}","b":"model-00001-of-00002.safetensors","c":"{}"}}}})", a, c);
}

inline constexpr const char* kGood =
    R"({"metadata":{"total_size":12,"author":"a\u0062c"},"weight_map":{"a":"model-00001-of-00002.safetensors",
        "b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})";

class ShardsTest : public testing::Test {
 protected:
  void SetUp() override {
    root = io::fresh_folder("checkpoint");
    folder = root / "model";
    fs::create_directory(folder);
    put("model-00001-of-00002.safetensors", model(entry("a", 0) + entry("b", 4), 8, 'x'));
    put("model-00002-of-00002.safetensors", model(entry("c", 0), 4, 'y'));
  }
  void TearDown() override { fs::remove_all(root); }

  void put(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }

  CheckpointPtr open(const fs::path& path, OpenOptions options = {}) const {
    return Checkpoint::open(path.string().c_str(), options);
  }

  std::string index() const { return (folder / "model.safetensors.index.json").string(); }

  Error error_of(const fs::path& path, const OpenOptions& options = {}) const {
    try {
      open(path, options);
    } catch (const Error& error) {
      return error;
    }
    return {Status::ok, 0, kNowhere, {}};
  }

  void expect_refused(const BadIndex& bad) const {
    put("model.safetensors.index.json", bad.text);
    const Error error = error_of(index());
    EXPECT_EQ(static_cast<int>(error.status), static_cast<int>(bad.status)) << bad.fault << ": " << error.message;
    EXPECT_NE(error.message.find(bad.message), std::string::npos) << bad.fault << ": " << error.message;
    EXPECT_EQ(error.message.find_first_of("\n\x1b"), std::string::npos) << bad.fault;
  }

  fs::path root;
  fs::path folder;
};

}  // namespace st::core
