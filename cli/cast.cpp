// `safetensors cast FILE OUT --to DTYPE`: converts float tensors to another float type, and copies all other tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "app.hpp"
#include "arguments.hpp"
#include "base/dtype.hpp"
#include "conversion.hpp"
#include "failure.hpp"
#include "name_filter.hpp"
#include "text.hpp"
#include "values.hpp"
#include "write_model.hpp"

namespace cli {
namespace {

using safetensors::Dtype;

constexpr const char* kCastNotes =
    "Each value is rounded to nearest, ties to even: once, except that F64 is rounded to F32 on its way to BF16 and F8,\n"
    "as in torch. Values out of range become infinity, or NaN in a dtype without infinities. Their number is printed to\n"
    "standard error. Integers, BOOL, C64 and sub-byte floats are copied.\n"
    "\n"
    "Examples:\n"
    "  safetensors cast model.safetensors half.safetensors --to bf16\n"
    "  safetensors cast shards/ half/ --to f16 --filter '*.weight'\n"
    "  safetensors cast model.safetensors small.safetensors --to f8_e4m3 --from bf16 --dry-run";

struct CastOptions {
  std::string path;
  std::string to;
  std::string from;
  NameFilter filter;
  WriteSettings settings;
};

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// Accepts names as in safetensors or torch, and short ones such as fp32. Ignores case.
Dtype float_dtype(const std::string& option, const std::string& text) {
  std::string name = lower_case(text);
  if (name.starts_with("fp")) name.erase(1, 1);
  const auto by_torch = std::find_if(st::kDtypes.begin(), st::kDtypes.end(),
                                     [&](auto& info) { return info.torch == name && !name.empty(); });
  name = upper_case(by_torch == st::kDtypes.end() ? name : std::string(by_torch->name));
  const Dtype dtype = safetensors::dtype_from_name(name);
  if (is_convertible(dtype)) return dtype;
  throw Failure{kUsage, formatted("{} {}: not one of {}{}", option, shown(text, 40), names_of_convertible(),
                                  did_you_mean(name, convertible_names()))};
}

// Prints a note about floats that cannot be converted.
void note_copied_floats(const safetensors::SafeOpen& file) {
  std::map<std::string, std::size_t> others;
  for (const safetensors::Tensor& tensor : file) {
    const std::string name(tensor.dtype_name());
    if ((name.front() == 'F' || name.front() == 'C') && !is_convertible(tensor.dtype)) ++others[name];
  }
  for (const auto& [name, tensors] : others) {
    std::fprintf(stderr, "safetensors: note: %s is not converted: %s\n", name.c_str(),
                 counted(tensors, "tensor").c_str());
  }
}

void note_out_of_range(std::uint64_t values, const CastOptions& options, Dtype to) {
  if (values == 0) return;
  const char* const became = options.settings.saturate ? "the nearest finite number"
                             : has_infinity(to)        ? "infinity"
                                                       : "NaN";
  std::fprintf(stderr, "safetensors: note: out of the range of %s: %s, now %s\n",
               std::string(safetensors::name(to)).c_str(), counted(values, "value").c_str(), became);
}

void cast(const CastOptions& options) {
  options.filter.check();
  const Dtype to = float_dtype("--to", options.to);
  const Dtype from = options.from.empty() ? Dtype::UNKNOWN : float_dtype("--from", options.from);
  try {
    const Input input(options.path);
    options.filter.require_one(options.path, {input.file});
    std::vector<NewTensor> tensors = all_tensors(input.file);
    bool is_copy = !tensors.empty();
    for (NewTensor& tensor : tensors) {
      const bool chosen = is_convertible(tensor.dtype) && (from == Dtype::UNKNOWN || tensor.dtype == from);
      if (!chosen || !options.filter.matches(tensor.name)) continue;
      is_copy = is_copy && tensor.dtype == to;
      tensor.dtype = to;
    }
    note_copied_floats(input.file);
    if (is_copy) std::fputs("safetensors: note: no tensor is converted\n", stderr);
    note_out_of_range(write_like(std::move(tensors), input, options.settings), options, to);
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

}  // namespace

void add_cast(Command& app) {
  const auto options = std::make_shared<CastOptions>();
  Command command = app.add_command("cast", "Convert float tensors to another dtype");
  command.add_input("FILE", options->path, "A file, an index of shards, or a model folder").required();
  command.add_output("OUT", options->settings.out, "A file, - for standard output, or a folder for shards").required();
  command.add_option("--to", options->to, "New dtype: bf16, f16, f32, f64, f8_e4m3 ...; also float16, fp16 ...")
      .shown_as("DTYPE")
      .required();
  command.add_option("--from", options->from, "Convert only tensors of this dtype").shown_as("DTYPE").not_empty();
  command.add_flag("--saturate", options->settings.saturate,
                   "Values out of range become the nearest finite number, not infinity or NaN");
  options->filter.declare(command, "Convert only tensors whose name matches this pattern; repeatable");
  options->settings.declare(command);
  command.footer(kCastNotes);
  command.on_run([options] { cast(*options); });
}

}  // namespace cli
