// The files to open, as layouts.py lists them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bench {

struct Case {
  std::string kind;  // open, shards or hostile
  std::string name;
  std::vector<std::string> files;  // one; of a model in shards all
  std::string folder;              // of the shards; empty for one file
  std::string bintensors_file;     // the same table in the other format; may not exist
  std::size_t tensors = 0;
  std::size_t header_bytes = 0;
  std::string our_verdict;
  std::string reference_verdict;  // ok or refused
};

// Throws std::runtime_error, saying how to make the files, when there are none.
std::vector<Case> read_cases(const std::string& folder, const std::string& manifest);

}  // namespace bench
