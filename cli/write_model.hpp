// Writing a new model, for `split`, `merge`, `rename`, `extract --filter` and `cast`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

#include "new_model.hpp"

namespace cli {

class Command;

struct WriteSettings {
  std::string out;
  bool replace = false;
  bool dry_run = false;
  bool saturate = false;  // of `cast`, see Converter

  void declare(Command& command);
};

struct Input {
  std::string path;
  safetensors::SafeOpen file;
};

// Writes the files of a model, or prints them if this is a dry run. Files are replaced only with
// settings.replace, and inputs only if the new file is made from this one file. Returns the number of converted values that were out of range. Throws a Failure
// or a safetensors::Error.
std::uint64_t write_model(const NewModel& model, const WriteSettings& settings, const std::vector<Input>& inputs);

// Writes one file or a folder, depending on settings.out. A folder gets the shards of the input.
std::uint64_t write_like(std::vector<NewTensor> tensors, const Input& input, const WriteSettings& settings);

}  // namespace cli
