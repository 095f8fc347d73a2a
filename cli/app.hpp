// The program: its commands, and the data for generating manual pages and completions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cli {

class Command;

// One function per command. It declares the command's options, and the function to run if the command is chosen. A
// command ends by returning, or by throwing a Failure or a safetensors::Error.
void add_cast(Command& app);
void add_cat(Command& app);
void add_convert(Command& app);
void add_diff(Command& app);
void add_extract(Command& app);
void add_fetch(Command& app);
void add_hash(Command& app);
void add_merge(Command& app);
void add_meta(Command& app);
void add_rename(Command& app);
void add_set(Command& app);
void add_show(Command& app);
void add_split(Command& app);
void add_stats(Command& app);
void add_verify(Command& app);

// Runs the command line, whose first argument is the program's name, and returns the exit code.
int run(const std::vector<std::string>& arguments);

struct OptionText {
  std::vector<std::string> names;  // "--json", "-h"; "FILE" for a positional
  std::string value;               // "GLOB"; empty for a flag
  std::string description;
  std::vector<std::string> choices;
};

// The parser's description of a command.
struct CommandText {
  std::string name;
  std::string description;
  std::string footer;
  std::vector<OptionText> words;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
  bool needs_command;  // one of `commands` is required
};

// Describes the whole program.
CommandText describe_program();

}  // namespace cli
