// A storage whose bytes are read more than once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "checkpoint.hpp"

namespace cli::legacy {

// Where the bytes of a storage lie.
struct Source {
  const Input* input = nullptr;
  Storage storage;
  std::unique_ptr<const Input> unpacked;  // what `input` is, if it is not that of the checkpoint
};

// Reads a storage to its end, which checks it. A packed one is unpacked to a file without a name. The storage of the
// result is neither packed nor checked again.
Source prepare(const Input& input, const Storage& storage);

}  // namespace cli::legacy
