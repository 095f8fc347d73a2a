// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.hpp"

namespace st {

Dtype dtype_from_name(std::string_view name) {
  const Dtype dtype = kDtypeNames.find(DtypeNames::digest(name));
  const bool whole = name.size() == info(dtype).name.size();
  // Two dtype names are longer than the digest. A name of eight bytes may also contain a NUL where a shorter name ends.
  return whole && (name.size() <= 8 || info(dtype).name == name) ? dtype : Dtype::unknown;
}

}  // namespace st
