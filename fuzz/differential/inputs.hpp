// Inputs of fuzz_differential and fuzz_reference: mutated headers and indexes, and the kernels and windows to read them
// with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

namespace differential {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  template <std::size_t N>
  auto one_of(const std::string_view (&list)[N]) {
    return list[below(N)];
  }

 private:
  std::mt19937_64 engine_;
};

struct Seed {
  std::string text;
  std::uint64_t data_bytes = 0;
  bool index = false;
};

// Adds the header of each small file in the folder, and in the folders in it.
void add_files(std::vector<Seed>& seeds, const std::filesystem::path& folder);

// Return a valid header and a valid index.
Seed header_of(Random& random);
Seed index_of(Random& random);

void mutate(std::string& text, Random& random);

// Returns the kernels of simdjson that run on this processor.
std::vector<const simdjson::implementation*> kernels();

// Returns a random window size for the parser. Small windows cut tokens.
std::size_t window_bytes(Random& random);

// Returns the text with all bytes but line ends and printable ASCII in hexadecimal.
std::string printable(std::string_view text);

}  // namespace differential
