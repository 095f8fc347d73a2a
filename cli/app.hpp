// The command line of the program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cli {

// Runs what the arguments (the program's name is the first) say, or prints the help or why they are wrong. Returns the
// exit code.
int run(const std::vector<std::string>& arguments);

struct OptionText {
  std::vector<std::string> names;  // "--json", "-h"; of a word "FILE"
  std::string value;               // "GLOB"; empty: it is a flag
  std::string description;
  std::vector<std::string> choices;
};

// What the parser knows of a command, which manual pages and completions tell.
struct CommandText {
  std::string name;
  std::string description;
  std::string footer;
  std::vector<OptionText> words;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
  bool needs_command;  // or does something without one of them
};

// Of the program.
CommandText describe_program();

}  // namespace cli
