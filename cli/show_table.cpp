// The table of `safetensors show`.
//
// The name is the last column, as in `ls -l`: names have any length and, with wide characters, any width, and would
// push the columns after them out of line.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>

#include "show.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kLongestName = 200;  // characters
constexpr std::size_t kLongestKey = 40;
constexpr std::size_t kLongestValue = 100;
constexpr std::size_t kLongestDtype = 20;

class Numbers {
 public:
  explicit Numbers(bool exact) : exact_(exact) {}

  // Few sizes occur again and again: the last text of each slot is kept.
  const std::string& bytes(std::uint64_t n) {
    Slot& slot = slots_[std::hash<std::uint64_t>{}(n ^ (n >> 16U)) % slots_.size()];
    if (slot.text.empty() || slot.number != n) slot = {n, exact_ ? std::to_string(n) : human_bytes(n)};
    return slot.text;
  }
  std::string count(std::uint64_t n) const { return exact_ ? std::to_string(n) : human_count(n); }

 private:
  struct Slot {
    std::uint64_t number = 0;
    std::string text;
  };
  bool exact_;
  std::array<Slot, 251> slots_;
};

struct Widths {
  std::size_t dtype = 5;  // these are the widths of the headings
  std::size_t shape = 5;
  std::size_t size = 4;
  std::size_t offset = 6;
};

std::string dtype_of(const safetensors::Tensor& tensor) { return shown(tensor.dtype_name(), kLongestDtype); }

Widths measure(const Listing& listing, Numbers& numbers) {
  std::uint64_t last = 0;
  Widths widths;
  for (const safetensors::Tensor& tensor : listing.tensors) {
    widths.dtype = std::max(widths.dtype, width_of(dtype_of(tensor)));
    widths.shape = std::max(widths.shape, width_of(shape_text(tensor.shape)));
    widths.size = std::max(widths.size, numbers.bytes(tensor.nbytes()).size());
    last = std::max(last, tensor.offset());
  }
  widths.offset = std::max(widths.offset, std::to_string(last).size());
  return widths;
}

// Rows are put together by hand: there may be a hundred thousand, and to format five padded values takes a microsecond.
void add_left(std::string& row, const std::string& text, std::size_t width) {
  row += text;
  row.append(width - std::min(width, width_of(text)) + 2, ' ');
}

void add_right(std::string& row, const std::string& text, std::size_t width) {
  row.append(width - std::min(width, text.size()), ' ');
  row.append(text).append(2, ' ');
}

void print_tensors(const Listing& listing, Numbers& numbers, Output& out) {
  if (listing.tensors.empty() && listing.all.tensors == 0) return out.write("no tensors\n");
  const Widths w = measure(listing, numbers);
  const bool sharded = listing.file.count_shards() > 1 && listing.in_data_order;
  std::size_t shard = listing.file.count_shards();  // none yet
  out.print("{:<{}}  {:<{}}  {:>{}}  {:>{}}  NAME\n", "DTYPE", w.dtype, "SHAPE", w.shape, "SIZE", w.size, "OFFSET",
            w.offset);
  std::string row;
  for (const safetensors::Tensor& tensor : listing.tensors) {
    if (sharded && tensor.shard() != shard) {
      shard = tensor.shard();
      out.print("\n{}\n", printable(listing.file.shard_path(shard)));
    }
    row.clear();
    add_left(row, dtype_of(tensor), w.dtype);
    add_left(row, shape_text(tensor.shape), w.shape);
    add_right(row, numbers.bytes(tensor.nbytes()), w.size);
    add_right(row, std::to_string(tensor.offset()), w.offset);
    row.append(shown(tensor.name, kLongestName)).append(1, '\n');
    out.write(row);
  }
  const std::uint64_t hidden = listing.all.tensors - listing.tensors.size();
  if (hidden != 0) out.print("… {} more\n", grouped(hidden));
}

void print_metadata(const safetensors::SafeOpen& file, Output& out) {
  const auto pairs = file.metadata();
  if (pairs.empty()) return;
  std::size_t width = 0;
  for (const auto& [key, value] : pairs) width = std::max(width, width_of(shown(key, kLongestKey)));
  out.write("\nMETADATA\n");
  for (const auto& [key, value] : pairs) {
    out.print("{:<{}}  {}\n", shown(key, kLongestKey), width, shown(value, kLongestValue));
  }
}

void print_totals(const Listing& listing, Numbers& numbers, Output& out) {
  std::vector<Total> rows = listing.dtypes;
  rows.push_back(listing.all);
  rows.back().dtype = "total";
  Widths w;
  std::size_t tensors = 7, parameters = 10;  // "TENSORS", "PARAMETERS"
  for (Total& row : rows) {
    row.dtype = shown(row.dtype, kLongestDtype);
    w.dtype = std::max(w.dtype, width_of(row.dtype));
    w.size = std::max(w.size, numbers.bytes(row.bytes).size());
    tensors = std::max(tensors, grouped(row.tensors).size());
    parameters = std::max(parameters, numbers.count(row.parameters).size());
  }
  out.print("\n{:<{}}  {:>{}}  {:>{}}  {:>{}}\n", "DTYPE", w.dtype, "TENSORS", tensors, "PARAMETERS", parameters,
            "SIZE", w.size);
  for (const Total& row : rows) {
    out.print("{:<{}}  {:>{}}  {:>{}}  {:>{}}\n", row.dtype, w.dtype, grouped(row.tensors), tensors,
              numbers.count(row.parameters), parameters, numbers.bytes(row.bytes), w.size);
  }
}

}  // namespace

void print_table(const Listing& listing, bool exact, Output& out) {
  Numbers numbers(exact);
  print_tensors(listing, numbers, out);
  print_metadata(listing.file, out);
  print_totals(listing, numbers, out);
}

}  // namespace cli
