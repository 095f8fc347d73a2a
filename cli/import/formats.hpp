// The readers, one per format. Each fills a Checkpoint without reading elements, and throws an ImportError.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint.hpp"
#include "zip.hpp"

namespace cli::importer {

// Whether read_checkpoint knows the first bytes.
bool is_checkpoint(const Input& input);

// Detects the format by the first bytes and calls one of the readers below. name: for the tensor of a .npy, which has
// no name.
Checkpoint read_checkpoint(std::unique_ptr<const Input> input, const std::string& name);

// torch.save since torch 1.6: a zip archive.
Checkpoint read_torch_zip(std::unique_ptr<const Input> input, const std::vector<ZipEntry>& entries);
// torch.save before: pickles, followed by the storages.
Checkpoint read_torch_stacked(std::unique_ptr<const Input> input);

Checkpoint read_npy(std::unique_ptr<const Input> input, const std::string& name);
Checkpoint read_npz(std::unique_ptr<const Input> input, const std::vector<ZipEntry>& entries);

// llama.cpp's format. Numbers, strings and booleans of its metadata are kept and arrays are dropped. Dimensions are
// reversed, because GGUF stores the fastest one first.
Checkpoint read_gguf(std::unique_ptr<const Input> input);

}  // namespace cli::importer
