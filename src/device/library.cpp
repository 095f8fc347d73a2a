// SPDX-License-Identifier: Apache-2.0
#include "device/library.hpp"

#include <string>

#include "base/error.hpp"

namespace st::device {

// Two copies of a driver in one process do not know of each other's contexts, so what the process has comes first.
Library::Library(const char* driver, const char* path, std::span<const char* const> names) : driver_(driver) {
  if (path != nullptr) {
    if (*path == '\0') fail(Status::argument, "{}: the path of the driver's library is empty", driver);
    std::string why;
    library_ = io::SharedLibrary::load(path, &why);
    if (!library_) {
      fail(Status::unsupported, "{}: {} is no library that can be loaded{}{}", driver, in_quotes(path),
           why.empty() ? "" : ": ", why);
    }
    return;
  }
  for (const char* const name : names) {
    if (library_ = io::SharedLibrary::loaded(name); library_) return;
  }
  for (const char* const name : names) {
    if (library_ = io::SharedLibrary::load(name); library_) return;
  }
  std::string all;
  for (const char* const name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  fail(Status::unsupported, "{}: no driver is installed: none of {} can be loaded", driver, all);
}

void* Library::address(const char* name) const {
  void* const found = library_.find(name);
  if (found == nullptr) fail(Status::unsupported, "{}: the driver is too old, it has no {}", driver_, name);
  return found;
}

}  // namespace st::device
