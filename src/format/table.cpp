// SPDX-License-Identifier: Apache-2.0
#include "format/table.hpp"

#include <xxhash.h>

namespace st::format {

std::uint64_t hash_name(std::string_view name, std::uint64_t seed) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

const char* Tensor::dtype_name() const {
  if (dtype() != Dtype::unknown) return info(dtype()).name.data();
  return reinterpret_cast<const char*>(static_cast<std::uintptr_t>(dims[rank]));
}

void Table::clear() {
  tensors.clear();
  metadata.clear();
  arena.release();
  has_metadata = false;
}

}  // namespace st::format
