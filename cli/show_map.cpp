// `safetensors show --map`: draws a map of each file's bytes, as text or as SVG.
//
// In text, a cell shows the owner of its middle byte. Letters represent dtypes; upper and lower case alternate between
// adjacent tensors of the same dtype. The SVG has one bar per file, scaled to the largest.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "show.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

struct Stretch {
  enum Kind : unsigned char { header, padding, tensor, other };  // other: unlisted tensors
  Kind kind;
  std::uint64_t begin;  // in the file
  std::uint64_t end;
  std::string dtype;  // this and the next two are set only for tensors
  std::string_view name;
  std::size_t number;
};

// Returns all bytes of a shard in file order. The listing must be in data order.
std::vector<Stretch> stretches_of(const Listing& listing, std::size_t shard) {
  const std::uint64_t size = listing.file.shard_size(shard);
  const std::string_view header = listing.file.header(shard);
  const std::size_t text = header.find_last_not_of(' ') + 1;
  std::vector<Stretch> stretches{{Stretch::header, 0, 8 + text, {}, {}, 0}};
  if (text < header.size()) stretches.push_back({Stretch::padding, 8 + text, 8 + header.size(), {}, {}, 0});
  std::size_t number = 0;
  const auto first = std::partition_point(listing.tensors.begin(), listing.tensors.end(),
                                          [&](const safetensors::Tensor& tensor) { return tensor.shard() < shard; });
  for (auto i = first; i != listing.tensors.end() && i->shard() == shard; ++i) {
    const safetensors::Tensor& tensor = *i;
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

// ---- text

constexpr std::size_t kRowsOfOneFile = 8;
constexpr std::array<int, 6> kTerminalColors{34, 32, 33, 35, 36, 31};  // ANSI codes

// Returns the range that contains a byte.
const Stretch& stretch_at(const std::vector<Stretch>& stretches, std::uint64_t byte) {
  const auto next = std::upper_bound(stretches.begin(), stretches.end(), byte,
                                     [](std::uint64_t b, const Stretch& stretch) { return b < stretch.begin; });
  return *(next - 1);
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
    return colors ? formatted("\x1b[{}m{}\x1b[0m", kTerminalColors[number % kTerminalColors.size()], letter)
                  : std::string(1, letter);
  }

  void print_legend(const Listing& listing, Output& out) const {
    out.write("\n#  header\n.  padding, or not listed\n");
    for (const Total& total : listing.dtypes) {
      const char letter = static_cast<char>('A' + numbers_.at(total.dtype) % 26);
      out.print("{}  {}  {} in {}\n", letter, shown(total.dtype, 20), human_bytes(total.bytes),
                counted(total.tensors, "tensor"));
    }
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

void print_cells(const std::vector<Stretch>& stretches, std::size_t cells, std::size_t width, const Letters& letters,
                 bool colors, Output& out) {
  const std::uint64_t size = stretches.back().end;
  for (std::size_t i = 0; i < cells; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) / static_cast<double>(cells);
    const auto byte = std::min(static_cast<std::uint64_t>(static_cast<double>(size) * middle), size - 1);
    out.write(letters.cell(stretch_at(stretches, byte), colors));
    if ((i + 1) % width == 0 || i + 1 == cells) out.write("\n");
  }
}

// ---- SVG

constexpr double kMapWidth = 1000;
constexpr double kThinnest = 0.2;  // thinner rectangles are merged with their neighbors
constexpr double kBar = 24;
constexpr double kRow = 48;
constexpr std::array<std::string_view, 8> kSvgColors{"#4477aa", "#228833", "#ccbb44", "#aa3377",
                                                     "#66ccee", "#ee6677", "#885522", "#777777"};

std::string escaped_for_xml(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

class Picture {
 public:
  Picture(const Listing& listing, Output& out) : listing_(listing), out_(out) {
    for (const Total& total : listing.dtypes) {
      colors_.emplace(total.dtype, kSvgColors[colors_.size() % kSvgColors.size()]);
    }
    for (std::size_t i = 0; i < listing.file.count_shards(); ++i) {
      largest_ = std::max(largest_, static_cast<double>(listing.file.shard_size(i)));
    }
  }

  void print() {
    const std::size_t shards = listing_.file.count_shards();
    const double height = kRow * static_cast<double>(shards) + 24 * static_cast<double>(listing_.dtypes.size() + 3);
    out_.print(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n",
        kMapWidth + 20, height);
    for (std::size_t i = 0; i < shards; ++i) print_shard(i, 10 + kRow * static_cast<double>(i));
    print_legend(20 + kRow * static_cast<double>(shards));
    out_.write("</svg>\n");
  }

 private:
  double x_of(std::uint64_t byte) const { return 10 + kMapWidth * static_cast<double>(byte) / largest_; }

  std::string_view color_of(const Stretch& stretch) const {
    switch (stretch.kind) {
      case Stretch::header: return "#000000";
      case Stretch::tensor: return colors_.at(stretch.dtype);
      default: return "#dddddd";
    }
  }

  static std::string title_of(const Stretch& stretch) {
    switch (stretch.kind) {
      case Stretch::header: return "header";
      case Stretch::padding: return "padding";
      case Stretch::tensor: return escaped_for_xml(shown(stretch.name, 200)) + " " + escaped_for_xml(stretch.dtype);
      default: return "not listed";
    }
  }

  void print_shard(std::size_t shard, double y) {
    out_.print("<text x=\"10\" y=\"{}\">{}  {}</text>\n", y + 12, escaped_for_xml(listing_.file.shard_path(shard)),
               human_bytes(listing_.file.shard_size(shard)));
    double drawn = 0;
    for (const Stretch& stretch : stretches_of(listing_, shard)) {
      const double begin = std::max(x_of(stretch.begin), drawn);
      const double end = x_of(stretch.end);
      if (end - begin < kThinnest && drawn != 0) continue;
      drawn = end;
      out_.print(
          "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" stroke=\"white\" stroke-width=\"0.1\">"
          "<title>{}, bytes {} to {}</title></rect>\n",
          begin, y + 18, end - begin, kBar, color_of(stretch), title_of(stretch), stretch.begin, stretch.end);
    }
  }

  void print_legend(double y) {
    const auto line = [&](std::string_view color, const std::string& text) {
      out_.print("<rect x=\"10\" y=\"{}\" width=\"16\" height=\"16\" fill=\"{}\"/><text x=\"32\" y=\"{}\">{}</text>\n",
                 y, color, y + 13, text);
      y += 24;
    };
    line("#000000", "header");
    line("#dddddd", "padding, or not listed");
    for (const Total& total : listing_.dtypes) {
      line(colors_.at(total.dtype), formatted("{}  {} in {}", escaped_for_xml(total.dtype), human_bytes(total.bytes),
                                              counted(total.tensors, "tensor")));
    }
  }

  const Listing& listing_;
  Output& out_;
  std::map<std::string, std::string_view> colors_;
  double largest_ = 1;
};

}  // namespace

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
    print_cells(stretches_of(listing, i), std::max<std::size_t>(cells, 1), width, letters, colors, out);
  }
  letters.print_legend(listing, out);
}

void print_svg(const Listing& listing, Output& out) { Picture(listing, out).print(); }

}  // namespace cli
