// The table of `safetensors show`.
//
// The name is the last column, as in `ls -l`, because names can be long and may contain wide characters.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "show.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kLongestInTable = 200;  // characters
constexpr std::size_t kLongestKey = 40;
constexpr std::size_t kLongestValue = 100;
constexpr std::size_t kLongestDtype = 20;

// Formats cells. Caches recent texts, because a model has few different dtypes, shapes and sizes.
class Cells {
 public:
  explicit Cells(bool exact) : exact_(exact) {}

  const std::string& dtype(const safetensors::Tensor& tensor) {
    if (tensor.dtype != dtype_.of || tensor.dtype == safetensors::Dtype::UNKNOWN) {
      dtype_ = {tensor.dtype, shown(tensor.dtype_name(), kLongestDtype)};
    }
    return dtype_.text;
  }
  const std::string& shape(safetensors::View<std::uint64_t> dims) {
    std::uint64_t hash = dims.size();
    for (const std::uint64_t dim : dims) hash = hash * 31 + dim;
    Slot<std::vector<std::uint64_t>>& slot = shapes_[hash % shapes_.size()];
    if (slot.text.empty() || !std::equal(dims.begin(), dims.end(), slot.of.begin(), slot.of.end())) {
      slot = {{dims.begin(), dims.end()}, shape_text(dims)};
    }
    return slot.text;
  }
  const std::string& bytes(std::uint64_t n) {
    Slot<std::uint64_t>& slot = sizes_[(n ^ (n >> 16U)) % sizes_.size()];
    if (slot.text.empty() || slot.of != n) slot = {n, exact_ ? std::to_string(n) : human_bytes(n)};
    return slot.text;
  }
  std::string count(std::uint64_t n) const { return exact_ ? std::to_string(n) : human_count(n); }

 private:
  template <class T>
  struct Slot {
    T of{};
    std::string text;
  };
  const bool exact_;
  Slot<safetensors::Dtype> dtype_{safetensors::Dtype::UNKNOWN, ""};
  std::array<Slot<std::vector<std::uint64_t>>, 251> shapes_;
  std::array<Slot<std::uint64_t>, 251> sizes_;
};

struct Widths {
  std::size_t dtype = 5;  // widths of the headings
  std::size_t shape = 5;
  std::size_t size = 4;
  std::size_t offset = 6;
};

Widths measure(const Listing& listing, Cells& cells) {
  std::uint64_t last = 0;
  Widths widths;
  for (const safetensors::Tensor& tensor : listing.tensors) {
    widths.dtype = std::max(widths.dtype, width_of(cells.dtype(tensor)));
    widths.shape = std::max(widths.shape, width_of(cells.shape(tensor.shape)));
    widths.size = std::max(widths.size, cells.bytes(tensor.nbytes()).size());
    last = std::max(last, tensor.offset());
  }
  widths.offset = std::max(widths.offset, std::to_string(last).size());
  return widths;
}

// Rows are built by hand: formatting five padded values takes a microsecond, and there may be a hundred thousand rows.
void add_left(std::string& row, const std::string& text, std::size_t width) {
  row += text;
  row.append(width - std::min(width, width_of(text)) + 2, ' ');
}

void add_right(std::string& row, const std::string& text, std::size_t width) {
  row.append(width - std::min(width, text.size()), ' ');
  row.append(text).append(2, ' ');
}

void print_tensors(const Listing& listing, Cells& cells, Output& out) {
  if (listing.tensors.empty() && listing.all.tensors == 0) return out.write("no tensors\n");
  const Widths w = measure(listing, cells);
  const bool sharded = listing.file.count_shards() > 1 && listing.in_data_order;
  std::size_t shard = listing.file.count_shards();  // no shard yet
  out.print("{:<{}}  {:<{}}  {:>{}}  {:>{}}  NAME\n", "DTYPE", w.dtype, "SHAPE", w.shape, "SIZE", w.size, "OFFSET",
            w.offset);
  std::string row;
  for (const safetensors::Tensor& tensor : listing.tensors) {
    if (sharded && tensor.shard() != shard) {
      shard = tensor.shard();
      out.print("\n{}\n", printable(listing.file.shard_path(shard)));
    }
    row.clear();
    add_left(row, cells.dtype(tensor), w.dtype);
    add_left(row, cells.shape(tensor.shape), w.shape);
    add_right(row, cells.bytes(tensor.nbytes()), w.size);
    add_right(row, std::to_string(tensor.offset()), w.offset);
    row.append(shown(tensor.name, kLongestInTable)).append(1, '\n');
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

void print_totals(const Listing& listing, Cells& cells, Output& out) {
  std::vector<Total> rows = listing.dtypes;
  rows.push_back(listing.all);
  rows.back().dtype = "total";
  Widths w;
  std::size_t tensors = 7, parameters = 10;  // "TENSORS", "PARAMETERS"
  for (Total& row : rows) {
    row.dtype = shown(row.dtype, kLongestDtype);
    w.dtype = std::max(w.dtype, width_of(row.dtype));
    w.size = std::max(w.size, cells.bytes(row.bytes).size());
    tensors = std::max(tensors, grouped(row.tensors).size());
    parameters = std::max(parameters, cells.count(row.parameters).size());
  }
  out.print("\n{:<{}}  {:>{}}  {:>{}}  {:>{}}\n", "DTYPE", w.dtype, "TENSORS", tensors, "PARAMETERS", parameters,
            "SIZE", w.size);
  for (const Total& row : rows) {
    out.print("{:<{}}  {:>{}}  {:>{}}  {:>{}}\n", row.dtype, w.dtype, grouped(row.tensors), tensors,
              cells.count(row.parameters), parameters, cells.bytes(row.bytes), w.size);
  }
}

}  // namespace

void print_table(const Listing& listing, bool exact, Output& out) {
  Cells cells(exact);
  print_tensors(listing, cells, out);
  print_metadata(listing.file, out);
  print_totals(listing, cells, out);
}

}  // namespace cli
