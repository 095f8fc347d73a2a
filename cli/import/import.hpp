// `safetensors convert` for files from other programs: torch's .pt, .bin, .pth and .ckpt, numpy's .npz and .npy, and
// GGUF.
//
// Reading a checkpoint never executes any part of it. The first bytes of a file decide its format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <safetensors/safetensors.h>

#include "io/source.hpp"

namespace cli::importer {

inline constexpr std::string_view kIndexEnding = ".index.json";

struct Import {
  std::string from;
  std::string into;
  st_write_options write = ST_INIT(st_write_options);
  bool keep_shared = false;
  std::string key;                          // selects a dictionary in a torch checkpoint
  bool dry_run = false;                     // prints what would be written
  std::function<void()> published = [] {};  // called when `into` exists, before it is read back
};

// Returns whether the file has one of these formats. If it cannot be read, returns false, so that the library reports
// the error.
bool is_importable(const std::string& path);

// Returns whether the path is an index with at least one shard in one of these formats, or with a missing shard whose
// extension is not one of the library's.
bool is_importable_index(const std::string& path);

// If the path is a folder without a safetensors or bintensors model, returns the index or file in it to convert.
// Returns any other path unchanged. Throws a Failure if there are several candidates.
std::string checkpoint_in(const std::string& path);

struct Imported {
  std::vector<std::string> names;
  std::set<std::string> dropped;  // tensors that share elements with a written one
  std::uint64_t bytes = 0;
  st::io::Identity seen;  // the input, when it was opened
};

// Converts one file, and reports omissions on standard error. Throws a Failure.
Imported import_file(const Import& request);

// Converts every shard of an index, and then writes the new index. `into` is a directory or the new index's path.
void import_index(const Import& request);

}  // namespace cli::importer
