// `safetensors rename FILE PATTERN REPLACEMENT OUT`: writes the same tensors under other names.
//
// Patterns are ECMAScript regular expressions. std::regex recurses at each step of a match. So it runs on a stack that
// is large enough for the longest possible match, and patterns that need too large a stack are rejected.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <memory>
#include <regex>
#include <system_error>

#include "app.hpp"
#include "arguments.hpp"
#include "failure.hpp"
#include "name_filter.hpp"
#include "output.hpp"
#include "system.hpp"
#include "text.hpp"
#include "write_model.hpp"

namespace cli {
namespace {

// Measured: a match takes at most 250 bytes of stack per byte of the name and per byte of PATTERN. Compiling PATTERN
// takes 3 KiB per byte if it is all parentheses. Sanitizers need five times as much.
constexpr std::size_t kStackPerStep = 2048;
constexpr std::size_t kStackPerByte = 16 << 10;
constexpr std::size_t kLongestPattern = 1000;
constexpr std::size_t kMostSteps = std::size_t{1} << 18;

constexpr const char* kRenameNotes =
    "Replaces every match of PATTERN, an ECMAScript regular expression. In REPLACEMENT, $1 is the first group, $& the\n"
    "whole match and $$ a dollar sign. Some patterns, such as (a+)+b, can take exponential time. All new\n"
    "names are computed before anything is written.\n"
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

// One element for each character, or two on Windows. An expression then matches whole characters.
std::wstring wide(const std::string& text, const char* what) {
  if (!is_utf8(text)) throw Failure{kUsage, formatted("{} {}: not valid UTF-8", what, shown(text, 100))};
  std::wstring result;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (sizeof(wchar_t) == 2 && c > 0xFFFF) {
      result += static_cast<wchar_t>(0xD7C0 + (c >> 10));
      result += static_cast<wchar_t>(0xDC00 + (c & 0x3FF));
    } else {
      result += static_cast<wchar_t>(c);
    }
  }
  return result;
}

std::string narrow(const std::wstring& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<char32_t>(text[i]);
    if (sizeof(wchar_t) == 2 && c >> 10 == 0x36 && i + 1 < text.size()) {
      c = 0x10000 + ((c & 0x3FF) << 10) + (static_cast<char32_t>(text[++i]) & 0x3FF);
    }
    const unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    result += static_cast<char>(more == 0 ? c : (0xFF00U >> (more + 1) & 0xFF) | c >> (6 * more));
    for (unsigned k = more; k-- > 0;) result += static_cast<char>(0x80 | (c >> (6 * k) & 0x3F));
  }
  return result;
}

std::wregex expression_of(const std::string& pattern) {
  try {
    return std::wregex(wide(pattern, "PATTERN"), std::wregex::ECMAScript | std::wregex::optimize);
  } catch (const std::regex_error& error) {
    throw Failure{kUsage, formatted("PATTERN {}: {}", shown(pattern, 100), error.what())};
  }
}

// Returns the length of PATTERN with repetitions {n} expanded, at most kMostSteps + 1.
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
    length = length > kMostSteps / times ? kMostSteps + 1 : length * times;  // the product may overflow 32 bits
  }
  return length;
}

std::size_t steps_of(const std::string& name, std::size_t pattern_length) {
  const std::size_t most = kMostSteps / std::max<std::size_t>(pattern_length, 1);
  if (name.size() <= most) return name.size() * pattern_length;
  throw Failure{kUsage, formatted("tensor {}: the name has {} bytes, but this PATTERN allows at most {}",
                                  shown(name, 40), name.size(), most)};
}

std::string new_name(const std::string& name, const std::wregex& pattern, const std::wstring& replacement) {
  try {
    return narrow(std::regex_replace(wide(name, "tensor"), pattern, replacement));
  } catch (const std::regex_error& error) {
    throw Failure{kUsage, formatted("tensor {}: {}", shown(name, 40), error.what())};
  }
}

std::vector<NewTensor> renamed(const safetensors::SafeOpen& file, const RenameOptions& options, Output& out) {
  const std::wregex pattern = expression_of(options.pattern);
  const std::wstring replacement = wide(options.replacement, "REPLACEMENT");
  std::vector<NewTensor> tensors = all_tensors(file);
  std::size_t changed = 0;
  for (NewTensor& tensor : tensors) {
    if (!options.filter.matches(tensor.name)) continue;
    std::string name = new_name(tensor.name, pattern, replacement);
    if (name == tensor.name) continue;
    ++changed;
    if (options.settings.dry_run) out.print("{} -> {}\n", shown(tensor.name, 1000), shown(name, 1000));
    tensor.name = std::move(name);
  }
  if (changed == 0) throw Failure{kUsage, formatted("{}: PATTERN changes no name", options.path)};
  return tensors;
}

// Returns the stack size that is enough for all names. Throws a Failure if it would be too large.
std::size_t stack_for(const safetensors::SafeOpen& file, const RenameOptions& options) {
  const std::size_t length = length_of(options.pattern);
  std::size_t steps = 0;
  for (const safetensors::Tensor& tensor : file) {
    if (options.filter.matches(tensor.name)) steps = std::max(steps, steps_of(std::string(tensor.name), length));
  }
  return (std::size_t{1} << 20) + kStackPerByte * options.pattern.size() + kStackPerStep * steps;
}

void check_pattern(const std::string& pattern) {
  const std::size_t length = length_of(pattern);
  if (pattern.size() <= kLongestPattern && length <= kMostSteps) return;
  throw Failure{kUsage, formatted("PATTERN {}: longer than {} bytes, or than {} with its repetitions written out",
                                  shown(pattern, 40), kLongestPattern, kMostSteps)};
}

void rename(const RenameOptions& options) {
  options.filter.check();
  check_pattern(options.pattern);
  try {
    const Input input(options.path);
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
  Command command = app.add_command("rename", "Rename tensors");
  command.add_input("FILE", options->path, "A file, an index of shards, or a model folder").required();
  command.add_option("PATTERN", options->pattern, "The regular expression to replace").required();
  command.add_option("REPLACEMENT", options->replacement, "The new text; may be empty").required();
  command.add_output("OUT", options->settings.out, "A file, - for standard output, or a folder for shards").required();
  options->filter.declare(command, "Rename only tensors whose name matches this pattern; repeatable");
  options->settings.declare(command);
  command.footer(kRenameNotes);
  command.on_run([options] { rename(*options); });
}

}  // namespace cli
