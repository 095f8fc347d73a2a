// `safetensors convert` of what other programs write: torch's .pt, .bin, .pth and .ckpt, numpy's .npz and .npy, GGUF.
//
// Nothing of a checkpoint is run. Which kind a file is of is decided by its first bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <safetensors/safetensors.h>

namespace cli::legacy {

struct Conversion {
  std::string from;
  std::string into;
  st_write_options write = ST_INIT(st_write_options);
  bool keep_shared = false;
};

// Whether a file is one of these. False for one that cannot be read, which is for the library to report.
bool is_legacy(const std::string& path);

// Whether a path is an index of shards that are.
bool is_legacy_index(const std::string& path);

// What convert_file has written.
struct Written {
  std::vector<std::string> names;
  std::map<std::string, std::string> dropped;  // names and what metadata says of them
  std::uint64_t bytes = 0;
};

// Writes one file. What is left out is said on standard error. Throws a Failure or a safetensors::Error.
Written convert_file(const Conversion& conversion);

// Converts every shard of an index into a folder, or beside an index that is to be written, and the index last.
void convert_index(const Conversion& conversion);

}  // namespace cli::legacy
