// Checkpoints for tests: tensors of bytes that look random, in a file and in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <safetensors/safetensors.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace st::test {

struct FreeFile {
  void operator()(st_file* file) const { st_free(file); }
};
struct FreePlan {
  void operator()(st_plan* plan) const { st_plan_free(plan); }
};
using PlanPtr = std::unique_ptr<st_plan, FreePlan>;

// Tensors "t0", "t1", ... of U8 in rows of `columns` bytes.
class Model {
 public:
  explicit Model(const std::vector<std::uint64_t>& sizes, std::uint64_t columns = 1) {
    std::string header = "{";
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[" +
                std::to_string(sizes[i] / columns) + "," + std::to_string(columns) + "],\"data_offsets\":[" +
                std::to_string(at) + "," + std::to_string(at + sizes[i]) + "]}";
      at += sizes[i];
    }
    header += "}";
    const std::uint64_t length = header.size();
    bytes_.assign(reinterpret_cast<const char*>(&length), sizeof length);
    bytes_ += header;
    data_ = bytes_.size();
    bytes_.resize(data_ + at);
    std::mt19937_64 random(sizes.size());
    for (std::size_t i = data_; i + 8 <= bytes_.size(); i += 8) {
      const std::uint64_t value = random();
      std::memcpy(&bytes_[i], &value, sizeof value);
    }
    std::string folder = (std::filesystem::temp_directory_path() / "devices-XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    std::ofstream(path(), std::ios::binary) << bytes_;
    st_error err = ST_INIT(st_error);
    st_file* file = nullptr;
    if (st_open(path().c_str(), nullptr, &file, &err) != ST_OK) throw std::runtime_error(err.message);
    file_.reset(file);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() { std::filesystem::remove_all(folder_); }

  std::string path() const { return (folder_ / "m.safetensors").string(); }
  const st_file* file() const { return file_.get(); }
  std::size_t count() const { return st_count_tensors(file()); }
  const st_tensor* tensor(std::size_t i) const { return st_get_tensor_at(file(), i); }
  std::size_t size(std::size_t i) const { return static_cast<std::size_t>(st_tensor_bytes(tensor(i))); }
  const char* bytes(std::size_t i) const { return bytes_.data() + st_tensor_offset(tensor(i)); }
  const char* data() const { return bytes_.data() + data_; }
  std::size_t data_size() const { return bytes_.size() - data_; }

  PlanPtr plan() const {
    st_plan* plan = nullptr;
    if (st_plan_new(file(), &plan, nullptr) != ST_OK) throw std::bad_alloc();
    return PlanPtr(plan);
  }

 private:
  std::string bytes_;
  std::size_t data_ = 0;
  std::filesystem::path folder_;
  std::unique_ptr<st_file, FreeFile> file_;
};

}  // namespace st::test
