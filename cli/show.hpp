// The tensors that `safetensors show` has selected, and functions to print them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

#include "name_filter.hpp"
#include "output.hpp"

namespace cli {

struct ShowOptions {
  std::string path;
  NameFilter filter;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  std::string sort;      // name, size, dtype or shape; empty for data order
  std::string map_file;  // for --map; empty: standard output
  bool json = false;
  bool exact = false;
  bool tree = false;
  bool map = false;
  bool replace = false;  // whether to replace map_file
};

struct Total {
  std::string dtype;
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
};

struct Listing {
  safetensors::SafeOpen file;
  std::string path;
  std::vector<safetensors::Tensor> tensors;  // at most the limit
  bool in_data_order;
  std::vector<Total> dtypes;  // of all tensors that match the filter, largest first
  Total all;
};

void print_table(const Listing& listing, bool exact, Output& out);
void print_tree(const Listing& listing, bool exact, Output& out);
void print_json(const Listing& listing, Output& out);
void print_map(const Listing& listing, Output& out);
void print_svg(const Listing& listing, Output& out);

}  // namespace cli
