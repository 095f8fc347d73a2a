// What `safetensors verify` looks at beyond the headers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

// NaN, infinity and denormal numbers of a tensor.
struct OddValues {
  std::string path;
  std::string tensor;
  std::uint64_t count, nans, infinities, denormals;
};

// Of every float tensor that has some.
std::vector<OddValues> odd_values(const safetensors::SafeOpen& file);

// The lines of a file as sha256sum writes it.
class Sums {
 public:
  // Throws a Failure.
  explicit Sums(const std::string& path);

  // What is wrong with a file, or nothing.
  std::string fault_of(const safetensors::SafeOpen& file, std::size_t shard) const;

 private:
  struct Line {
    std::string digest;
    std::string path;
  };
  std::string shown_;
  std::vector<Line> lines_;
};

}  // namespace cli
