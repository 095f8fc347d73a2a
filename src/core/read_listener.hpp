// Receives word of what was read. Any thread may call it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace st::core {

class ReadListener {
 public:
  virtual void arrived(std::size_t entry, std::uint64_t bytes) = 0;
  virtual bool stopped() const = 0;  // true: read nothing more

 protected:
  ~ReadListener() = default;
};

}  // namespace st::core
