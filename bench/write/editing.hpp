// Editing the metadata of a large file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace bench {

// A file of 291 tensors, as an 8-billion-parameter model has, that takes no space on the disk; `room` spaces next to
// its metadata.
void make_sparse(const std::string& path, std::size_t bytes, std::size_t room);

void edit(const std::string& path, const std::string& key, const std::string& value);

}  // namespace bench
