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

struct ReadOptions {
  std::string name;  // for the tensor of a .npy, which has no name
  std::string key;   // of the dictionary to read from a torch checkpoint; empty: its `state_dict`, or everything
};

// Detects the format by the first bytes and calls one of the readers below.
Checkpoint read_checkpoint(std::unique_ptr<const Input> input, const ReadOptions& options);

// torch.save since torch 1.6: a zip archive.
void read_torch_zip(Checkpoint& checkpoint, const std::vector<ZipEntry>& entries, const std::string& key);
// torch.save before: pickles, followed by the storages.
void read_torch_stacked(Checkpoint& checkpoint, const std::string& key);

// Arrays of Python objects, strings and records are left out of a .npz.
void read_npy(Checkpoint& checkpoint, const std::string& name);
void read_npz(Checkpoint& checkpoint, const std::vector<ZipEntry>& entries);

// llama.cpp's format. Numbers, strings and booleans of its metadata are kept and arrays are dropped. Dimensions are
// reversed, because GGUF stores the fastest one first.
void read_gguf(Checkpoint& checkpoint);

}  // namespace cli::importer
