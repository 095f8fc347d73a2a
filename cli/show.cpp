// `safetensors show FILE`: what is in a file.
// SPDX-License-Identifier: Apache-2.0
#include "show.hpp"

#include <algorithm>
#include <memory>

#include "commands.hpp"
#include "failure.hpp"
#include "text.hpp"
#include "whole_number.hpp"

namespace cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  safetensors show model.safetensors\n"
    "  safetensors show model.safetensors --filter '*.attn.*' --limit 20\n"
    "  safetensors show model.safetensors --json | jq -r '.tensors[] | select(.dtype == \"F32\") | .name'\n"
    "  safetensors show model.safetensors --json | jq .total.parameters";

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

Listing list(const ShowOptions& options) {
  Listing listing{safetensors::SafeOpen(options.path), options.path, {}, {}, {}};
  for (safetensors::Tensor tensor : listing.file) {
    if (!options.filter.fits(tensor.name)) continue;
    add(listing.all, tensor);
    add(total_of(listing.dtypes, tensor.dtype_name()), tensor);
    if (listing.tensors.size() < options.limit) listing.tensors.push_back(std::move(tensor));
  }
  std::stable_sort(listing.dtypes.begin(), listing.dtypes.end(),
                   [](const Total& a, const Total& b) { return a.bytes > b.bytes; });
  return listing;
}

void show(const ShowOptions& options) {
  options.filter.check();
  try {
    Output out;
    const Listing listing = list(options);
    if (options.json) {
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

void add_show(CLI::App& app) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand("show", "List the tensors and the metadata of a file");
  command->add_option("FILE", options->path, "A .safetensors file")->required();
  options->filter.declare(*command, "Only tensors whose name fits this pattern (*, ?, [a-z]); repeatable");
  command->add_option("--limit", options->limit, "List at most this many tensors; totals still count all")
      ->option_text("N")
      ->transform(whole_number());
  command->add_flag("--exact", options->exact, "Bytes and counts in full, not as 548.1 MB");
  command->add_flag("--json", options->json, "One JSON object; its keys are in docs/command.md");
  command->footer(kExamples);
  command->callback([options] { show(*options); });
}

}  // namespace cli
