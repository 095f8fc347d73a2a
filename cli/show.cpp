// `safetensors show FILE`: lists tensors, metadata and totals.
// SPDX-License-Identifier: Apache-2.0
#include "show.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "app.hpp"
#include "arguments.hpp"
#include "failure.hpp"
#include "output.hpp"
#include "remote.hpp"

namespace cli {
namespace {

constexpr const char* kShowExamples =
    "Examples:\n"
    "  safetensors show model.safetensors\n"
    "  safetensors show model.safetensors --filter '*.attn.*' --limit 20\n"
    "  safetensors show model.safetensors --json | jq -r '.tensors[] | select(.dtype == \"F32\") | .name'\n"
    "  safetensors show model.safetensors --json | jq .total.parameters\n"
    "  safetensors show model.safetensors --tree\n"
    "  safetensors show model.safetensors --map model.svg";

void add(Total& total, const safetensors::Tensor& tensor) {
  total.tensors += 1;
  total.parameters += tensor.elements();
  total.bytes += tensor.nbytes();
}

Total& total_of(std::vector<Total>& totals, std::string_view dtype) {
  const auto found = std::find_if(totals.begin(), totals.end(), [&](const Total& t) { return t.dtype == dtype; });
  if (found != totals.end()) return *found;
  totals.push_back({std::string(dtype)});
  return totals.back();
}

using Order = bool (*)(const safetensors::Tensor& a, const safetensors::Tensor& b);

struct NamedOrder {
  std::string_view name;
  Order before;
};
constexpr std::array<NamedOrder, 4> kOrders{
    {{"name", [](auto& a, auto& b) { return a.name < b.name; }},
     {"size", [](auto& a, auto& b) { return a.nbytes() > b.nbytes(); }},  // largest first
     {"dtype", [](auto& a, auto& b) { return a.dtype_name() < b.dtype_name(); }},
     {"shape", [](auto& a, auto& b) {
        return std::lexicographical_compare(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end());
      }}}};

// Equal tensors stay in data order.
void sort(std::vector<safetensors::Tensor>& tensors, const std::string& by) {
  const auto order = std::find_if(kOrders.begin(), kOrders.end(), [&](auto& known) { return known.name == by; });
  std::stable_sort(tensors.begin(), tensors.end(), order->before);
}

Listing list(const ShowOptions& options) {
  Listing listing{open_model(options.path), options.path, {}, options.sort.empty(), {}, {}};
  for (safetensors::Tensor tensor : listing.file) {
    if (!options.filter.matches(tensor.name)) continue;
    add(listing.all, tensor);
    add(total_of(listing.dtypes, tensor.dtype_name()), tensor);
    const bool kept = !listing.in_data_order || listing.tensors.size() < options.limit;
    if (kept) listing.tensors.push_back(std::move(tensor));
  }
  if (!listing.in_data_order) sort(listing.tensors, options.sort);
  if (listing.tensors.size() > options.limit) {
    listing.tensors.erase(listing.tensors.begin() + static_cast<std::ptrdiff_t>(options.limit), listing.tensors.end());
  }
  std::stable_sort(listing.dtypes.begin(), listing.dtypes.end(),
                   [](const Total& a, const Total& b) { return a.bytes > b.bytes; });
  return listing;
}

void write_svg(const Listing& listing, const std::string& path, bool replace) {
  check_output(path, Inputs(listing.path, listing.file), /*may_be_input=*/false, replace);
  OutputFile file(path, replace);
  Output text([&](std::string_view part) { file.write(part.data(), part.size()); });
  print_svg(listing, text);
  text.flush();
  file.finish();
}

// Reassigns the words: the parser takes the word after --map for OUT.svg, even if it is FILE.
void sort_out_words(ShowOptions& options) {
  if (options.path.empty() && !options.map_file.ends_with(".svg")) std::swap(options.path, options.map_file);
  if (options.path.empty()) throw Failure{kUsage, "FILE is required (safetensors show --help)"};
  if (!options.map_file.empty() && !options.map_file.ends_with(".svg")) {
    throw Failure{kUsage, options.map_file + ": --map needs a name that ends in .svg"};
  }
  if (options.replace && options.map_file.empty()) throw Failure{kUsage, "--replace needs --map OUT.svg"};
}

void show(const ShowOptions& options) {
  options.filter.check();
  try {
    Output out;
    const Listing listing = list(options);
    if (options.map) {
      options.map_file.empty() ? print_map(listing, out) : write_svg(listing, options.map_file, options.replace);
    } else if (options.tree) {
      print_tree(listing, options.exact, out);
    } else if (options.json) {
      print_json(listing, out);
    } else {
      print_table(listing, options.exact, out);
    }
    out.flush();
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

}  // namespace

void add_show(Command& app) {
  const auto options = std::make_shared<ShowOptions>();
  Command command = app.add_command("show", "List the tensors and the metadata of a file");
  command.add_input("FILE", options->path, "A file, an index of shards, or a model folder");
  options->filter.declare(command, "List only tensors whose name matches this pattern (*, ?, [a-z]); repeatable");
  command.add_number("--limit", options->limit, "List at most N tensors; totals still count all matching tensors")
      .shown_as("N");
  command.add_flag("--exact", options->exact, "Print exact bytes and counts instead of rounded ones");
  const Option sort = command.add_option("--sort", options->sort, "Sort by name, size (largest first), dtype or shape")
                          .shown_as("KEY")
                          .one_of({"name", "size", "dtype", "shape"});
  const Option json = command.add_flag("--json", options->json, "Print one JSON object instead of the table");
  Option tree =
      command.add_flag("--tree", options->tree, "Print names as a tree, with identical numbered blocks merged");
  Option map = command.add_input("--map", options->map_file,
                                 "Draw a map of each file's bytes by tensor, as text or to an SVG file");
  map.shown_as("[OUT.svg]").may_lack_value().excludes(json).excludes(tree).excludes(sort);
  tree.excludes(json).excludes(sort);
  declare_replace(command, options->replace);
  command.footer(kShowExamples);
  command.on_run([options, map] {
    options->map = map.is_given();
    sort_out_words(*options);
    show(*options);
  });
}

}  // namespace cli
