// The ways to write a file, for tests in which a call, the process or the power fails.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../io/faults.hpp"
#include "core/edit.hpp"
#include "core/writer.hpp"

namespace st::core::write_scenarios {

constexpr const char* kTarget = "model.safetensors";

struct Scenario {
  std::string name;
  bool synced;
  std::function<void(const std::filesystem::path& folder)> prepare;
  std::function<void(const std::filesystem::path& folder)> run;
  faults::Plan kernel{};  // the feature that the kernel lacks
};

// They write kTarget in the folder.
const std::vector<Scenario>& scenarios();

std::string contents(const std::filesystem::path& path);

WriteOptions options(bool sync, bool replace = true);

// Tensors given by pointer, put in pieces, and copied from another file.
void write_file(const std::filesystem::path& path, unsigned seed, const WriteOptions& options,
                const std::filesystem::path& other = {});

// Sets the note of kTarget.
void edit(const std::filesystem::path& folder, const EditOptions& how, std::string_view value);

}  // namespace st::core::write_scenarios
