// The parser of the command line. Help, manual pages and completions are generated from it.
// SPDX-License-Identifier: Apache-2.0
#include "app.hpp"

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>

#include <safetensors/safetensors.hpp>

#include "arguments.hpp"
#include "failure.hpp"
#include "output.hpp"
#include "remote.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kFooter =
    "Exit codes:\n"
    "  0  success\n"
    "  1  the file breaks the format\n"
    "  2  usage error\n"
    "  3  a file cannot be read, or the output cannot be written\n"
    "  4  internal error\n"
    "  5  `diff` found a difference, or `verify --values` found NaN or infinity\n"
    "\n"
    "Examples:\n"
    "  safetensors show model.safetensors\n"
    "  safetensors show model.safetensors --json | jq .total\n"
    "  safetensors show --help";

// Keeps line breaks in examples and exit codes. Newer versions of CLI11 would join the lines.
template <class Formatter>
void keep_lines_of_footers(Formatter& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) formatter.enable_footer_formatting(false);
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

bool holds(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void add_commands(Command app) {
  add_show(app);
  add_verify(app);
  add_diff(app);
  add_stats(app);
  add_meta(app);
  add_cat(app);
  add_extract(app);
  add_set(app);
  add_split(app);
  add_merge(app);
  add_rename(app);
  add_cast(app);
  add_convert(app);
  add_hash(app);
  add_fetch(app);
}

std::unique_ptr<CLI::App> make_app() {
  auto app =
      std::make_unique<CLI::App>("List, check, compare, edit, convert and download safetensors files", "safetensors");
  keep_lines_of_footers(*app->get_formatter());
  app->allow_windows_style_options(false);  // a path may begin with a slash on Windows, too
  app->set_version_flag("--version", "safetensors " + std::string(safetensors::version()));
  app->footer(kFooter);
  add_commands(Command(app.get()));
  app->require_subcommand(1);
  return app;
}

// Removes the queries of URLs from a message of the parser, which may quote an argument or a part of it.
std::string without_queries(std::string text, const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    const std::string shown = shown_url(word);
    std::size_t at = shown == word ? text.npos : text.find(word);
    for (; at != text.npos; at = text.find(word, at + shown.size())) text.replace(at, word.size(), shown);
  }
  for (const std::string_view scheme : {"https://", "http://", "hf://"}) {
    std::size_t at = lower_case(text).find(scheme);
    while (at != text.npos) {
      const std::size_t length = std::min(text.find_first_of(" '\"", at), text.size()) - at;
      const std::string shown = shown_url(text.substr(at, length));
      text.replace(at, length, shown);
      at = lower_case(text).find(scheme, at + shown.size());
    }
  }
  return text;
}

// Returns a one-line error message for the arguments, with a similar command or option as a suggestion.
std::string explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") break;
    const std::vector<std::string> commands = names_of_commands(*command);
    if (holds(commands, word)) {
      command = command->get_subcommand(word);
      continue;
    }
    if (command == &app && !word.starts_with("-")) {
      return formatted("unknown command '{}'{}", printable(shown_url(word)), did_you_mean(word, commands));
    }
    const std::string option = word.substr(0, word.find('='));
    const std::vector<std::string> options = names_of_options(*command);
    if (!option.starts_with("--") || holds(options, option)) continue;
    return formatted("unknown option '{}'{}", printable(option), did_you_mean(option, options));
  }
  std::string text = error.what();
  unmark(text);
  return without_queries(text, arguments);
}

// Returns the help text of the command that the words name. Handles `meta` specially, because the parser takes the word
// after it for FILE.
std::string help_of(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  std::string before;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (!holds(names_of_commands(*command), arguments[i])) continue;
    before += (before.empty() ? "" : " ") + command->get_name();
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional()) before += " " + option->get_name(true);
    }
    command = command->get_subcommand(arguments[i]);
  }
  return command->help(before);
}

// Returns the command line that prints help for the intended command.
std::string help_for(const CLI::App& app, const std::vector<std::string>& arguments) {
  const bool names_command = arguments.size() > 1 && holds(names_of_commands(app), arguments[1]);
  return names_command ? "safetensors " + arguments[1] + " --help" : "safetensors --help";
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  if (option.get_name() == "--sort") return {"name", "size", "dtype", "shape"};
  return {};
}

OptionText described(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (option.get_positional()) {
    text.names = {option.get_name(true)};
    const std::string& words = option.get_option_text();
    if (option.get_expected_max() > 1 && words.empty()) text.names[0] += "...";
    if (!words.empty()) text.names[0] = words.starts_with("...") ? text.names[0] + " " + words : words;
  } else if (option.get_items_expected_max() > 0) {
    text.value = option.get_option_text().empty() ? "VALUE" : option.get_option_text();
  }
  text.description = option.get_description();
  text.choices = choices_of(option);
  return text;
}

CommandText described(const CLI::App& app) {
  const bool needs_command = app.get_require_subcommand_min() > 0;
  CommandText text{app.get_name(), app.get_description(), app.get_footer(), {}, {}, {}, needs_command};
  for (const CLI::Option* option : app.get_options()) {
    (option->get_positional() ? text.words : text.options).push_back(described(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    text.commands.push_back(described(*command));
  }
  return text;
}

}  // namespace

int run(const std::vector<std::string>& arguments) {
  const std::unique_ptr<CLI::App> app = make_app();
  const std::size_t program = arguments.empty() ? 0 : 1;
  std::vector<std::string> given =
      kept_whole({arguments.begin() + static_cast<std::ptrdiff_t>(program), arguments.end()});
  std::reverse(given.begin(), given.end());  // the parser expects the last argument first
  try {
    app->parse(std::move(given));
    return kSuccess;
  } catch (const CLI::CallForHelp&) {
    Output out;
    out.write(help_of(*app, arguments));
    out.flush();
    return kSuccess;
  } catch (const CLI::Success& version) {
    std::ostringstream text;
    const int code = app->exit(version, text, text);
    Output out;
    out.write(text.str());
    out.flush();
    return code;
  } catch (const CLI::ParseError& error) {
    return complain({kUsage, explain(*app, error, arguments) + " (" + help_for(*app, arguments) + ")"});
  }
}

CommandText describe_program() { return described(*make_app()); }

}  // namespace cli
