// SPDX-License-Identifier: Apache-2.0
#include "format/table.hpp"

namespace st::format {

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
