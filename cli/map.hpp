// Where the bytes of each file lie: for the pictures of `show --map`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "show.hpp"

namespace cli {

struct Stretch {
  enum Kind : unsigned char { header, padding, tensor, other };  // other: tensors that are not listed
  Kind kind;
  std::uint64_t begin;  // in the file
  std::uint64_t end;
  std::string dtype;  // of a tensor, and the next two
  std::string_view name;
  std::size_t number;
};

// All bytes of a shard, in their order. The listing is in the order of the data.
std::vector<Stretch> stretches_of(const Listing& listing, std::size_t shard);

void print_map(const Listing& listing, Output& out);

// A picture in SVG.
void print_svg(const Listing& listing, Output& out);

}  // namespace cli
