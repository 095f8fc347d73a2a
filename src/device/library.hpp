// A driver's library, loaded while the program runs, with messages that name the driver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "io/os.hpp"

namespace st::device {

class Library {
 public:
  // The library at `path`, or without a path the first of `names` that is loaded already, or else the first that can be
  // loaded. Throws Status::unsupported.
  Library(const char* driver, const char* path, std::span<const char* const> names);

  // Throws Status::unsupported if there is no such function.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name) const;

  const char* driver_;
  io::SharedLibrary library_;
};

}  // namespace st::device
