// GGUF, the files of llama.cpp: its tensors of floats and integers. Quantised ones have no dtype in safetensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "checkpoint.hpp"

namespace cli::legacy {

// Numbers, texts and booleans of its metadata become metadata, arrays are left out. Dimensions are turned around, since
// GGUF gives the fastest one first.
Checkpoint read_gguf(std::unique_ptr<const Input> input);

}  // namespace cli::legacy
