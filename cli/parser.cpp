// SPDX-License-Identifier: Apache-2.0
#include "parser.hpp"

#include <utility>

#include <CLI/CLI.hpp>

#include "whole_number.hpp"

namespace cli {
namespace {

// Texts that the function changes, or whose fault it returns.
CLI::Validator checked_by(std::string (*change)(std::string&)) { return {change, ""}; }

// Goes first of all that is done to a value: the last transform() of an option is the first to run.
CLI::Option* unmarked(CLI::Option* option) {
  return option->transform(checked_by([](std::string& value) {
    unmark(value);
    return std::string();
  }));
}

}  // namespace

std::vector<std::string> kept_whole(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (argument.starts_with('[')) argument.insert(argument.begin(), '\0');
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

// An option of the parser that takes several values takes all the words that follow.
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
