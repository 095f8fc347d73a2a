// Prints the output of `convert --dry-run`, and checks new files for every --dry-run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

// A file that a dry run would write.
class PlannedFile {
 public:
  explicit PlannedFile(std::string path) : path_(std::move(path)) {}

  void add(std::string_view name, safetensors::Dtype dtype, safetensors::View<std::uint64_t> shape,
           std::uint64_t bytes);

  // Prints the path and the totals, then a line for each tensor, then the metadata.
  void print(const safetensors::Metadata& metadata) const;

 private:
  std::string path_;
  std::uint64_t tensors_ = 0;
  std::uint64_t bytes_ = 0;
  std::string lines_;
};

// Makes the library check tensors and metadata as before writing a file, by writing to the null device.
void begin_dry_run(safetensors::Writer& writer, st_write_options options);

}  // namespace cli
