// `safetensors rename FILE PATTERN REPLACEMENT OUT`: the same tensors under other names.
//
// Patterns are regular expressions of ECMAScript. The library's engine calls itself for each step of a match, so that it
// runs on a stack that is as large as the longest match can need, and what would need too large a one is refused.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <memory>
#include <regex>
#include <system_error>

#include "commands.hpp"
#include "failure.hpp"
#include "formatted.hpp"
#include "name_filter.hpp"
#include "new_model.hpp"
#include "output.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

// Measured: a match takes up to 250 bytes of stack for each byte of a name and of PATTERN, and PATTERN itself 3 KiB for
// each of its bytes if all are brackets. A sanitizer takes five times as much.
constexpr std::size_t kStackPerStep = 2048;
constexpr std::size_t kStackPerByte = 16 << 10;
constexpr std::size_t kLongestPattern = 1000;
constexpr std::size_t kMostSteps = std::size_t{1} << 18;

constexpr const char* kNotes =
    "PATTERN is a regular expression; each place of a name where it fits is replaced. In REPLACEMENT, $1 is what the\n"
    "first group fits, $& all of it, and $$ a dollar sign. A PATTERN that can fit in very many ways, such as (a+)+b, may\n"
    "take longer than anybody waits: Ctrl-C ends it, and nothing has been written.\n"
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

// How long PATTERN is if what is repeated {n} times is written so often; at most kMostSteps + 1.
std::size_t length_of(const std::string& pattern) {
  std::size_t length = pattern.size();
  bool in_braces = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    in_braces = pattern[i] == '{' || (in_braces && pattern[i] != '}');
    if (!in_braces || (pattern[i] != '{' && pattern[i] != ',')) continue;
    std::size_t times = 0;
    const char* const end = pattern.data() + pattern.size();
    const auto read = std::from_chars(pattern.data() + i + 1, end, times);
    if (read.ec == std::errc::result_out_of_range) times = kMostSteps;
    times = std::clamp<std::size_t>(times, 1, kMostSteps);
    length = length > kMostSteps / times ? kMostSteps + 1 : length * times;  // the product may not fit 32 bits
  }
  return length;
}

std::size_t steps_of(const std::string& name, std::size_t pattern_length) {
  const std::size_t most = kMostSteps / std::max<std::size_t>(pattern_length, 1);
  if (name.size() <= most) return name.size() * pattern_length;
  throw Failure{kUsage, formatted("tensor {}: its name has {} bytes, and this PATTERN takes names of {} at most",
                                  shown(name, 40), name.size(), most)};
}

std::string new_name(const std::string& name, const std::regex& pattern, const std::string& replacement) {
  try {
    std::string changed = std::regex_replace(name, pattern, replacement);
    if (is_utf8(changed)) return changed;
    throw Failure{kUsage, formatted("tensor {}: its new name {} would not be UTF-8: a character has several bytes, and "
                                    "PATTERN fits some of them",
                                    shown(name, 40), shown(changed, 40))};
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

// Throws a Failure where no stack would be large enough.
std::size_t stack_for(const safetensors::SafeOpen& file, const RenameOptions& options) {
  const std::size_t length = length_of(options.pattern);
  std::size_t steps = 0;
  for (const safetensors::Tensor& tensor : file) {
    if (options.filter.fits(tensor.name)) steps = std::max(steps, steps_of(std::string(tensor.name), length));
  }
  return (std::size_t{1} << 20) + kStackPerByte * options.pattern.size() + kStackPerStep * steps;
}

void check_pattern(const std::string& pattern) {
  const std::size_t length = length_of(pattern);
  if (pattern.size() <= kLongestPattern && length <= kMostSteps) return;
  throw Failure{kUsage, formatted("PATTERN {}: longer than {} bytes, or repeated too often", shown(pattern, 40),
                                  kLongestPattern)};
}

void rename(const RenameOptions& options) {
  options.filter.check();
  check_pattern(options.pattern);
  try {
    const Input input{options.path, safetensors::SafeOpen(options.path)};
    Output out;
    std::vector<NewTensor> tensors;
    on_stack_of(stack_for(input.file, options), [&] { tensors = renamed(input.file, options, out); });
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
