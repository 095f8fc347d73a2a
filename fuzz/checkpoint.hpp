// Shared by the targets of the public API: files of known content, and checks after every call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <safetensors/safetensors.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.hpp"

namespace fuzz {

// The error of one call. check() takes the status of the call, and returns whether it succeeded.
class Call {
 public:
  Call() { std::memset(error_.message, '~', sizeof error_.message); }

  operator st_error*() { return &error_; }
  const st_error& error() const { return error_; }

  bool check(st_status status) const {
    if (status == ST_OK) {
      require(error_.status == 0 && error_.message[0] == '~', "a success leaves the error alone");
      return true;
    }
    require(status != ST_ERR_INTERNAL, "no input reaches a bug");
    require(std::string_view(st_status_name(status)).substr(0, 7) == "ST_ERR_", "the status is a known one");
    require(error_.status == status && error_.struct_size == sizeof error_, "the error has the status");
    const void* const end = std::memchr(error_.message, '\0', sizeof error_.message);
    require(end != nullptr && error_.message[0] != '\0', "a message ends, and is not empty");
    for (const char* c = error_.message; *c != '\0'; ++c)
      require(static_cast<unsigned char>(*c) >= 0x20 && *c != 0x7F, "a message is one line");
    return false;
  }
  // Requires that a wrong argument was refused with this status.
  void refuses(st_status status, st_status expected) const {
    require(!check(status) && status == expected, "a wrong argument is refused for what it is");
  }

 private:
  st_error error_ = ST_INIT(st_error);
};

// Returns a directory of this process. It is removed when the process ends.
inline const std::string& scratch_folder() {
  static const std::string& made = *[] {  // never destroyed, because it is used at the end
    auto* const name = new std::string((std::filesystem::temp_directory_path() / "fuzz-XXXXXX").string());
    require(mkdtemp(name->data()) != nullptr, "a directory can be made");
    std::atexit([] { std::filesystem::remove_all(scratch_folder()); });
    return name;
  }();
  return made;
}

inline void empty_scratch_folder() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_folder()))
    std::filesystem::remove_all(entry.path(), ignored);
}

struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

// A safetensors file. The strings go into JSON as they are.
inline std::string file_of(const std::vector<Tensor>& tensors, const std::string& metadata = "") {
  std::string header = "{";
  if (!metadata.empty()) header += "\"__metadata__\":{" + metadata + "},";
  std::string data;
  for (const Tensor& tensor : tensors) {
    std::string shape;
    for (const std::uint64_t dim : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    header += "\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data += tensor.bytes;
    header += std::to_string(data.size()) + "]},";
  }
  if (header.size() > 1) header.pop_back();
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(std::uint64_t{header.size()} >> (8 * i));
  return file + header + data;
}

}  // namespace fuzz
