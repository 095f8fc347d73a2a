// What the files of a model are called.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <safetensors/safetensors.hpp>

namespace cli {

// The format that files of this extension have; nothing for other extensions.
std::optional<st_format> format_of_extension(const std::string& path);

// Whether a path names one file rather than the folder of a model: by its extension, or because it is "-".
bool is_one_file(const std::string& out);

// Whether it is called like a file that is not written here, and is no folder.
bool is_other_file(const std::string& out);

// The name of a shard's file, in or below the folder of the model.
std::string name_of_shard(const safetensors::SafeOpen& file, const std::string& path, std::size_t shard);

// The name that the model's index has, or would have.
std::string name_of_index(const std::string& path, const safetensors::SafeOpen& file);

// "model" for model.safetensors, model.safetensors.index.json, and a folder that holds either.
std::string stem_of_model(const std::string& path, const safetensors::SafeOpen& file);

}  // namespace cli
