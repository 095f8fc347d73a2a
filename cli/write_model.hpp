// Writes a new model, for `split`, `merge`, `rename`, `extract --filter` and `cast`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

#include "new_model.hpp"
#include "output.hpp"
#include "remote.hpp"

namespace cli {

class Command;

struct WriteSettings {
  std::string out;
  bool replace = false;
  bool dry_run = false;
  bool saturate = false;  // for `cast`, see Converter

  void declare(Command& command);
};

struct Input {
  explicit Input(const std::string& from)
      : path(from), before(identity_of(from)), file(open_model(from)), files(from, file) {}

  std::string path;
  std::optional<st::io::Identity> before;  // of the path, before it was opened
  safetensors::SafeOpen file;
  Inputs files;  // as they were when they were opened

  // If the output is this input, sets ST_WRITE_ONLY_UNCHANGED: otherwise the changes of other processes would be lost.
  // Returns a check to call after the writer has begun.
  std::function<void()> protect(const std::string& out, std::uint32_t& flags) const;
};

// Writes the files of a model, or prints them in a dry run. Replaces files only with settings.replace, and an input
// only if it is the only input file. Returns the number of converted values that were out of range. Throws a Failure or
// a safetensors::Error.
std::uint64_t write_model(const NewModel& model, const WriteSettings& settings, const std::vector<Input>& inputs);

// Writes one file or a folder, depending on settings.out. In a folder, tensors stay in shards with the same names as
// the input's.
std::uint64_t write_like(std::vector<NewTensor> tensors, const Input& input, const WriteSettings& settings);

}  // namespace cli
