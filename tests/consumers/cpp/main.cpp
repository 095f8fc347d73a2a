// A program in C++ that uses both headers, and each class of the second.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.hpp>

#include <cstdio>
#include <filesystem>

#include <stdlib.h>

#include "../consumer.h"

namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() : path((fs::temp_directory_path() / "safetensors_consumer_XXXXXX").string()) {
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("no folder for a file");
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

bool read_through_objects() {
  unsigned char bytes[128];
  const std::size_t size = consumer_file(bytes);
  const auto file = safetensors::SafeOpen::from_memory(bytes, size);
  return file.get_tensor("a").read<float>() == std::vector<float>{1.5F, -2.0F};
}

bool refusal_is_thrown() {
  try {
    safetensors::SafeOpen::from_memory("\x02\0\0\0\0\0\0\0[]", 10);
  } catch (const safetensors::Error& error) {
    return error.status() == ST_ERR_SCHEMA;
  }
  return false;
}

bool saved_and_sliced(const std::string& path) {
  const std::vector<float> weight{1, 2, 3, 4, 5, 6};
  safetensors::save_file({{"weight", {weight, {2, 3}}}}, path, {{"format", "pt"}});
  safetensors::edit_metadata(path, {{"who", "test"}, {"format", std::nullopt}});
  const auto file = safetensors::SafeOpen(path);
  return file.metadata() == safetensors::Metadata{{"who", "test"}} &&
         file.get_slice("weight", {{}, {1, {}}}).read<float>() == std::vector<float>{2, 3, 5, 6};
}

bool written_and_planned(const std::string& path) {
  const std::vector<std::int32_t> values{7, -8};
  safetensors::Writer writer;
  const std::size_t index = writer.add("i", safetensors::Dtype::I32, {2});
  writer.begin(path);
  writer.put(index, 0, values.data(), 2 * sizeof(values[0]));
  writer.finish();
  const auto file = safetensors::SafeOpen(path);
  const auto tensor = file.get_tensor("i");
  safetensors::Buffer buffer(tensor.nbytes());
  safetensors::Plan plan(file);
  plan.add(tensor, buffer.data(), buffer.size());
  plan.run([](std::uint64_t done, std::uint64_t total) { return done <= total; });
  return plan.is_complete(0) && memcmp(buffer.data(), values.data(), buffer.size()) == 0;
}

}  // namespace

int main() {
  const Folder folder;
  const std::string path = folder.path + "/model.safetensors";
  if (!read_through_objects() || !refusal_is_thrown() || !saved_and_sliced(path) || !written_and_planned(path))
    return 1;
  return consumer_main();
}
