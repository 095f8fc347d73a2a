// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include <CLI/CLI.hpp>

#include "remote.hpp"
#include "text.hpp"

namespace cli {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                       {"B", 1},
                                       {"KB", 1000},
                                       {"MB", 1'000'000},
                                       {"GB", 1'000'000'000},
                                       {"TB", 1'000'000'000'000},
                                       {"KIB", 1ULL << 10},
                                       {"MIB", 1ULL << 20},
                                       {"GIB", 1ULL << 30},
                                       {"TIB", 1ULL << 40}}};

// Returns 0 for text that is not a size. Accepts at most seven decimals so that the product with a unit fits into 64
// bits.
std::uint64_t bytes_of(const std::string& text) {
  constexpr std::ptrdiff_t kMostDecimals = 7;
  const char* const last = text.data() + text.size();
  std::uint64_t value = 0;
  std::uint64_t decimals = 0;
  std::uint64_t scale = 1;
  auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc()) return 0;
  if (end != last && *end == '.') {
    const char* const first = end + 1;
    end = std::from_chars(first, last, decimals).ptr;
    if (end == first || end - first > kMostDecimals) return 0;
    for (const char* at = first; at != end; ++at) scale *= 10;
  }
  std::string name(end, last);
  name.erase(0, name.find_first_not_of(' '));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == name; });
  if (unit == kUnits.end() || value >= UINT64_MAX / unit->bytes) return 0;
  return value * unit->bytes + decimals * unit->bytes / scale;
}

// These check the text of an option. They return an error message, or normalize the text and return "".

// Removes leading zeros. CLI11's own checks use floating point, print limits of 309 digits, and read 010 as 8.
std::string to_whole_number(std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return formatted("{} is not an integer from 0 to {}", shown(text, 40), UINT64_MAX);
  }
  text = std::to_string(value);
  return {};
}

std::string to_bytes(std::string& text) {
  const std::uint64_t bytes = bytes_of(text);
  if (bytes == 0) return formatted("{} is not a size such as 5GB, 1.5GB or 500MiB", shown(text, 40));
  text = std::to_string(bytes);
  return {};
}

std::string hide_query(std::string& path) {
  path = shown_url(path);
  return {};
}

std::string refuse_url(std::string& path) {
  return is_url(path) ? shown_url(path) + " is a URL, which cannot be written" : std::string();
}

// Scripts pass an empty word for a variable that is not set. To ignore the option would hide that.
std::string refuse_empty(std::string& text) { return text.empty() ? "must not be empty" : std::string(); }

CLI::Validator checked_by(std::string (*change)(std::string&)) { return {change, ""}; }

// CLI11 does not call a subcommand that comes after "--". So a "--" before FILE of meta, the only command with
// subcommands, is dropped, and a FILE that begins with a dash gets a "./".
void drop_separator(std::vector<std::string>& arguments) {
  const auto is_first_word = [](const std::string& word) { return !word.starts_with('-') || word == "--"; };
  const auto command = std::find_if(arguments.begin(), arguments.end(), is_first_word);
  if (command == arguments.end() || *command != "meta") return;
  const auto separator = std::find_if(command + 1, arguments.end(), is_first_word);
  if (separator == arguments.end() || *separator != "--") return;
  const auto file = arguments.erase(separator);
  if (file != arguments.end() && file->starts_with('-')) file->insert(0, "./");
}

// Runs before all other checks of the value, because CLI11 runs the last transform() of an option first.
CLI::Option* unmarked(CLI::Option* option) {
  return option->transform(checked_by([](std::string& value) {
    unmark(value);
    return std::string();
  }));
}

}  // namespace

std::vector<std::string> kept_whole(std::vector<std::string> arguments) {
  drop_separator(arguments);
  for (std::string& argument : arguments) {
    if (argument.starts_with('[')) argument.insert(argument.begin(), '\0');
    if (argument.starts_with("--") && argument.ends_with('='))
      argument += '\0';  // an empty value, not the next argument
  }
  return arguments;
}

void unmark(std::string& argument) { std::erase(argument, '\0'); }

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::shown_as(const char* value) {
  option_->option_text(value);
  if (!option_->get_positional()) option_->type_name(value);  // in messages
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option Option::may_lack_value() {
  option_->expected(0, 1);
  return *this;
}

Option Option::not_empty() {
  option_->check(checked_by(refuse_empty));
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

bool Option::is_given() const { return option_->count() > 0; }

Command Command::add_command(const char* name, const char* what) {
  command_->require_subcommand(0, 1);
  return Command(command_->add_subcommand(name, what));
}

Option Command::add_option(const char* name, std::string& value, const char* what) {
  return Option(unmarked(command_->add_option(name, value, what)));
}

Option Command::add_option(const char* name, std::vector<std::string>& values, const char* what) {
  return Option(unmarked(command_->add_option(name, values, what)));
}

Option Command::add_input(const char* name, std::string& path, const char* what) {
  return Option(unmarked(command_->add_option(name, path, what)->transform(checked_by(hide_query))));
}

Option Command::add_input(const char* name, std::vector<std::string>& paths, const char* what) {
  return Option(unmarked(command_->add_option(name, paths, what)->transform(checked_by(hide_query))));
}

Option Command::add_output(const char* name, std::string& path, const char* what) {
  return Option(unmarked(command_->add_option(name, path, what)->transform(checked_by(refuse_url))));
}

// CLI11 options that take a vector are greedy. This one takes one value at a time.
Option Command::add_repeated(const char* name, std::vector<std::string>& values, const char* what) {
  const auto add = [&values](std::string value) {
    unmark(value);
    values.push_back(std::move(value));
  };
  return Option(command_->add_option_function<std::string>(name, add, what)->trigger_on_parse());
}

Option Command::add_number(const char* name, std::uint64_t& value, const char* what) {
  return Option(unmarked(command_->add_option(name, value, what)->transform(checked_by(to_whole_number))));
}

Option Command::add_size(const char* name, std::uint64_t& bytes, const char* what) {
  return Option(unmarked(command_->add_option(name, bytes, what)->transform(checked_by(to_bytes))));
}

Option Command::add_flag(const char* name, bool& value, const char* what) {
  return Option(command_->add_flag(name, value, what));
}

Option Command::add_flag(const char* name, const char* what) {
  return Option(command_->add_flag(name)->description(what));
}

void Command::footer(const char* text) { command_->footer(text); }

void Command::on_run(std::function<void()> run) {
  command_->callback([command = command_, run = std::move(run)] {
    if (command->get_subcommands().empty()) run();
  });
}

}  // namespace cli
