// SPDX-License-Identifier: Apache-2.0
#include "io/posix/residency.hpp"

namespace st::io {

std::optional<Residency> residency(int /*descriptor*/, std::uint64_t /*offset*/, std::uint64_t /*n*/) {
  return std::nullopt;
}

}  // namespace st::io
