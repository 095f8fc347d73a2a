// SPDX-License-Identifier: Apache-2.0
#include "editing.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <safetensors/safetensors.h>

namespace bench {

void make_sparse(const std::string& path, std::size_t bytes, std::size_t room) {
  constexpr std::size_t kTensors = 291;
  const std::size_t each = bytes / kTensors;
  std::string header = R"({"__metadata__":{"format":"pt"})" + std::string(room, ' ');
  for (std::size_t i = 0; i < kTensors; ++i) {
    header += fmt::format(R"(,"model.layers.{}.weight":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", i, each,
                          i * each, (i + 1) * each);
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::ofstream file(path, std::ios::binary);
  for (std::size_t length = header.size(), i = 0; i < 8; ++i, length >>= 8) file.put(static_cast<char>(length & 0xFF));
  file << header;
  file.close();
  std::filesystem::resize_file(path, 8 + header.size() + each * kTensors);
}

void edit(const std::string& path, const std::string& key, const std::string& value) {
  const char* const keys[] = {key.c_str()};
  const char* const values[] = {value.c_str()};
  st_error error = ST_INIT(st_error);
  if (st_edit_metadata(path.c_str(), keys, values, 1, nullptr, &error) != ST_OK) throw std::runtime_error(error.message);
}

}  // namespace bench
