// The importers, one per format. Each fills a Checkpoint without reading elements, or throws an ImportError.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint.hpp"
#include "zip.hpp"

namespace cli::importer {

// Whether read_checkpoint() recognizes the first bytes.
bool is_checkpoint(const Input& input);

struct ReadOptions {
  std::string name;  // for the array of a .npy file, which has no name
  std::string key;   // the dictionary of a torch checkpoint to read; empty: its `state_dict`, or everything
};

// Detects the format by the first bytes and calls one of the functions below.
Checkpoint read_checkpoint(std::unique_ptr<const Input> input, const ReadOptions& options);

// Output of torch.save since torch 1.6: a zip archive.
void read_torch_zip(Checkpoint& checkpoint, const std::vector<ZipEntry>& entries, const std::string& key);
// Older output of torch.save: pickles followed by the storages.
void read_torch_stacked(Checkpoint& checkpoint, const std::string& key);

// In a .npz, arrays of Python objects, strings and records are skipped, and so are other files.
void read_npy(Checkpoint& checkpoint, const std::string& name);
bool has_arrays(const Checkpoint& checkpoint, const std::vector<ZipEntry>& entries);
void read_npz(Checkpoint& checkpoint, const std::vector<ZipEntry>& entries);

// llama.cpp's format. Keeps numbers, strings and booleans from the metadata, and leaves out arrays. Reverses dimensions,
// because GGUF lists the fastest-varying one first.
void read_gguf(Checkpoint& checkpoint);

}  // namespace cli::importer
