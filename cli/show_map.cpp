// The picture of `safetensors show --map`: which bytes of each file belong to what.
//
// A cell is drawn for what its middle byte belongs to. Letters stand for types; neighbouring tensors of one type are told
// apart by upper and lower case.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>

#include "formatted.hpp"
#include "map.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kRowsOfOneFile = 8;
constexpr std::array<int, 6> kColors{34, 32, 33, 35, 36, 31};  // of ANSI terminals

// What lies at a byte of a shard.
const Stretch& at(const std::vector<Stretch>& stretches, std::uint64_t byte) {
  const auto behind = std::upper_bound(stretches.begin(), stretches.end(), byte,
                                       [](std::uint64_t b, const Stretch& stretch) { return b < stretch.begin; });
  return *(behind - 1);
}

class Letters {
 public:
  explicit Letters(const Listing& listing) {
    for (const Total& total : listing.dtypes) numbers_.emplace(total.dtype, numbers_.size());
  }

  std::string cell(const Stretch& stretch, bool colors) const {
    if (stretch.kind == Stretch::header) return "#";
    if (stretch.kind != Stretch::tensor) return ".";
    const std::size_t number = numbers_.at(stretch.dtype);
    const char letter = static_cast<char>((stretch.number % 2 == 0 ? 'A' : 'a') + number % 26);
    return colors ? formatted("\x1b[{}m{}\x1b[0m", kColors[number % kColors.size()], letter) : std::string(1, letter);
  }

  void print_legend(const Listing& listing, Output& out) const {
    out.write("\n#  header\n.  padding, or not chosen\n");
    for (const Total& total : listing.dtypes) {
      const char letter = static_cast<char>('A' + numbers_.at(total.dtype) % 26);
      out.print("{}  {}  {} in {}\n", letter, shown(total.dtype, 20), human_bytes(total.bytes),
                counted(total.tensors, "tensor"));
    }
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

void print_shard(const std::vector<Stretch>& stretches, std::size_t cells, std::size_t width, const Letters& letters,
                 bool colors, Output& out) {
  const std::uint64_t size = stretches.back().end;
  for (std::size_t i = 0; i < cells; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) / static_cast<double>(cells);
    const auto byte = std::min(static_cast<std::uint64_t>(static_cast<double>(size) * middle), size - 1);
    out.write(letters.cell(at(stretches, byte), colors));
    if ((i + 1) % width == 0 || i + 1 == cells) out.write("\n");
  }
}

}  // namespace

std::vector<Stretch> stretches_of(const Listing& listing, std::size_t shard) {
  const std::uint64_t size = listing.file.shard_size(shard);
  const std::string_view header = listing.file.header(shard);
  const std::size_t text = header.find_last_not_of(' ') + 1;
  std::vector<Stretch> stretches{{Stretch::header, 0, 8 + text, {}, {}, 0}};
  if (text < header.size()) stretches.push_back({Stretch::padding, 8 + text, 8 + header.size(), {}, {}, 0});
  std::size_t number = 0;
  // Tensors are in the order of the shards.
  const auto first = std::partition_point(listing.tensors.begin(), listing.tensors.end(),
                                          [&](const safetensors::Tensor& tensor) { return tensor.shard() < shard; });
  for (auto at = first; at != listing.tensors.end() && at->shard() == shard; ++at) {
    const safetensors::Tensor& tensor = *at;
    if (tensor.nbytes() == 0) continue;
    const std::uint64_t end = stretches.back().end;
    if (tensor.offset() > end) stretches.push_back({Stretch::other, end, tensor.offset(), {}, {}, 0});
    stretches.push_back({Stretch::tensor, tensor.offset(), tensor.offset() + tensor.nbytes(),
                         std::string(tensor.dtype_name()), tensor.name, number++});
  }
  const std::uint64_t end = stretches.back().end;
  if (end < size) stretches.push_back({Stretch::other, end, size, {}, {}, 0});
  return stretches;
}

void print_map(const Listing& listing, Output& out) {
  const std::size_t width = std::clamp<std::size_t>(output_columns(), 20, 500) - 1;
  const Letters letters(listing);
  const bool colors = output_has_colors();
  const std::size_t shards = listing.file.count_shards();
  std::uint64_t largest = 1;
  for (std::size_t i = 0; i < shards; ++i) largest = std::max(largest, listing.file.shard_size(i));
  for (std::size_t i = 0; i < shards; ++i) {
    const std::uint64_t size = listing.file.shard_size(i);
    out.print("{}  {}\n", printable(listing.file.shard_path(i)), human_bytes(size));
    const double share = static_cast<double>(size) / static_cast<double>(largest);
    const std::size_t cells =
        shards == 1 ? width * kRowsOfOneFile : static_cast<std::size_t>(static_cast<double>(width) * share);
    print_shard(stretches_of(listing, i), std::max<std::size_t>(cells, 1), width, letters, colors, out);
  }
  letters.print_legend(listing, out);
}

}  // namespace cli
