// The map as SVG: a bar for each file, as long as the file in proportion to the largest.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>

#include "formatted.hpp"
#include "map.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr double kWidth = 1000;
constexpr double kThinnest = 0.2;  // of a rectangle; neighbours that are thinner are drawn as one
constexpr double kBar = 24;
constexpr double kRow = 48;
constexpr std::array<std::string_view, 8> kColors{"#4477aa", "#228833", "#ccbb44", "#aa3377",
                                                  "#66ccee", "#ee6677", "#885522", "#777777"};

std::string escaped(std::string_view text) {
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
      colors_.emplace(total.dtype, kColors[colors_.size() % kColors.size()]);
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
        kWidth + 20, height);
    for (std::size_t i = 0; i < shards; ++i) print_shard(i, 10 + kRow * static_cast<double>(i));
    print_legend(20 + kRow * static_cast<double>(shards));
    out_.write("</svg>\n");
  }

 private:
  double x_of(std::uint64_t byte) const { return 10 + kWidth * static_cast<double>(byte) / largest_; }

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
      case Stretch::tensor: return escaped(shown(stretch.name, 200)) + " " + escaped(stretch.dtype);
      default: return "not chosen";
    }
  }

  void print_shard(std::size_t shard, double y) {
    out_.print("<text x=\"10\" y=\"{}\">{}  {}</text>\n", y + 12, escaped(listing_.file.shard_path(shard)),
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
    line("#dddddd", "padding, or not chosen");
    for (const Total& total : listing_.dtypes) {
      line(colors_.at(total.dtype),
           formatted("{}  {} in {}", escaped(total.dtype), human_bytes(total.bytes), counted(total.tensors, "tensor")));
    }
  }

  const Listing& listing_;
  Output& out_;
  std::map<std::string, std::string_view> colors_;
  double largest_ = 1;
};

}  // namespace

void print_svg(const Listing& listing, Output& out) { Picture(listing, out).print(); }

}  // namespace cli
