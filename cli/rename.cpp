// `safetensors rename FILE PATTERN REPLACEMENT OUT`: the same tensors under other names.
//
// Patterns are regular expressions of ECMAScript. The library's engine calls itself for each character, so that names
// beyond a length are refused rather than to run out of stack.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <regex>

#include "commands.hpp"
#include "failure.hpp"
#include "formatted.hpp"
#include "name_filter.hpp"
#include "new_model.hpp"
#include "output.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kLongestName = 4096;

constexpr const char* kNotes =
    "PATTERN is a regular expression; each place of a name where it fits is replaced. In REPLACEMENT, $1 is what the\n"
    "first group fits, $& all of it, and $$ a dollar sign.\n"
    "\n"
    "Examples:\n"
    "  safetensors rename model.safetensors '^model\\.' '' plain.safetensors\n"
    "  safetensors rename model.safetensors 'layers\\.(\\d+)\\.' 'h.$1.' new.safetensors --dry-run";

struct RenameOptions {
  std::string path;
  std::string pattern;
  std::string replacement;
  NameFilter filter;
  WriteSettings settings;
};

std::regex expression_of(const std::string& pattern) {
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw Failure{kUsage, formatted("PATTERN {}: {}", shown(pattern, 100), error.what())};
  }
}

std::string new_name(const std::string& name, const std::regex& pattern, const std::string& replacement) {
  if (name.size() > kLongestName) {
    throw Failure{kUsage,
                  formatted("tensor {}: names beyond {} bytes cannot be matched", shown(name, 40), kLongestName)};
  }
  try {
    return std::regex_replace(name, pattern, replacement);
  } catch (const std::regex_error& error) {
    throw Failure{kUsage, formatted("tensor {}: {}", shown(name, 40), error.what())};
  }
}

std::vector<NewTensor> renamed(const safetensors::SafeOpen& file, const RenameOptions& options, Output& out) {
  const std::regex pattern = expression_of(options.pattern);
  std::vector<NewTensor> tensors = all_tensors(file);
  std::size_t changed = 0;
  for (NewTensor& tensor : tensors) {
    if (!options.filter.fits(tensor.name)) continue;
    std::string name = new_name(tensor.name, pattern, options.replacement);
    if (name == tensor.name) continue;
    ++changed;
    if (options.settings.dry_run) out.print("{} -> {}\n", shown(tensor.name, 1000), shown(name, 1000));
    tensor.name = std::move(name);
  }
  if (changed == 0) throw Failure{kUsage, formatted("{}: PATTERN changes no name", options.path)};
  return tensors;
}

void rename(const RenameOptions& options) {
  options.filter.check();
  try {
    const Input input{options.path, safetensors::SafeOpen(options.path)};
    Output out;
    std::vector<NewTensor> tensors = renamed(input.file, options, out);
    out.flush();
    write_like(std::move(tensors), input, options.settings);
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

}  // namespace

void add_rename(Command& app) {
  const auto options = std::make_shared<RenameOptions>();
  Command command = app.add_command("rename", "Write the same tensors under other names");
  command.add_option("FILE", options->path, "A file, an index of shards, or their folder").required();
  command.add_option("PATTERN", options->pattern, "What of a name to replace").required();
  command.add_option("REPLACEMENT", options->replacement, "By what; may be empty").required();
  command.add_option("OUT", options->settings.out, "A file, - for standard output, or a folder for shards").required();
  options->filter.declare(command, "Only rename tensors whose name fits this pattern; repeatable");
  options->settings.declare(command);
  command.footer(kNotes);
  command.on_run([options] { rename(*options); });
}

}  // namespace cli
