// Tensors that share a storage, which safetensors cannot express.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint.hpp"

namespace cli::legacy {

struct Dropped {
  std::uint64_t views = 0;  // how many show other elements than the tensor that is kept, or in another shape
  std::string first_view;
};

// Keeps one tensor of those that share elements and removes the others, which metadata then names: "dropped": "kept".
// Which one is kept is what the converter of the reference decides: the first by name of those that are the whole
// storage. One that shows elements twice instead of others is none of these, since elements would be lost. Throws a
// Refusal where none is.
Dropped drop_shared(Checkpoint& checkpoint);

}  // namespace cli::legacy
