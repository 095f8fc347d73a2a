// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <utility>

namespace cli {

// Owns an open descriptor, or none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  explicit operator bool() const { return number_ >= 0; }
  int get() const { return number_; }

  // Returns 0, or -1 and sets errno. Some filesystems report failed writes only here.
  int close() {
    const int number = std::exchange(number_, -1);
    return number < 0 ? 0 : ::close(number);
  }

 private:
  int number_ = -1;
};

}  // namespace cli
