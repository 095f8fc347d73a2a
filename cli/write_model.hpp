// Writing a new model, for `split`, `merge`, `rename`, `extract --filter` and `cast`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  void declare(Command& command);
};

struct Input {
  std::string path;
  safetensors::SafeOpen file;
};

// Writes the files of a model, or prints them if this is a dry run. Files are replaced only with
// settings.replace, and inputs only if the new file is made from this one file. Throws a Failure or a
// safetensors::Error.
void write_model(const NewModel& model, const WriteSettings& settings, const std::vector<Input>& inputs);

// Writes one file or a folder, depending on settings.out. A folder gets the shards of the input.
void write_like(std::vector<NewTensor> tensors, const Input& input, const WriteSettings& settings);

}  // namespace cli
