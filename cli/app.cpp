// The parser of the command line: what the program, its help, its manual pages and its completions are made from.
// SPDX-License-Identifier: Apache-2.0
#include "app.hpp"

#include <string>

#include <fmt/format.h>

#include <safetensors/safetensors.hpp>

#include "commands.hpp"
#include "suggestion.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kFooter =
    "Exit codes:\n"
    "  0  success\n"
    "  1  the file breaks the format\n"
    "  2  wrong usage\n"
    "  3  the file cannot be read, or the output not written\n"
    "  4  a defect of this program\n"
    "  5  what was compared differs, or what was looked for was found\n"
    "\n"
    "Examples:\n"
    "  safetensors show model.safetensors\n"
    "  safetensors show model.safetensors --json | jq .total\n"
    "  safetensors show --help";

// Keeps the lines of examples and exit codes, which newer versions of the parser would join.
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

}  // namespace

std::unique_ptr<CLI::App> make_app() {
  auto app =
      std::make_unique<CLI::App>("Look into safetensors files, check them, and make new ones of them", "safetensors");
  keep_lines_of_footers(*app->get_formatter());
  app->allow_windows_style_options(false);  // a path may begin with a slash there too
  app->require_subcommand(1);
  app->set_version_flag("--version", "safetensors " + std::string(safetensors::version()));
  app->footer(kFooter);
  add_commands(*app);
  return app;
}

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
      return fmt::format("there is no command '{}'{}", printable(word), did_you_mean(word, commands));
    }
    const std::string option = word.substr(0, word.find('='));
    const std::vector<std::string> options = names_of_options(*command);
    if (!option.starts_with("--") || holds(options, option)) continue;
    return fmt::format("there is no option '{}'{}", printable(option), did_you_mean(option, options));
  }
  return error.what();
}

void add_commands(CLI::App& app) {
  add_show(app);
  add_verify(app);
  add_diff(app);
  add_stats(app);
  add_meta(app);
  add_cat(app);
  add_extract(app);
  add_split(app);
  add_merge(app);
  add_rename(app);
  add_cast(app);
  add_convert(app);
  add_hash(app);
}

}  // namespace cli
