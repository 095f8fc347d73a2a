// The texts that are made from the parser.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace pages {

struct OptionText {
  std::vector<std::string> names;  // "--json", "-h"
  std::string value;               // "GLOB"; empty: it is a flag
  std::string description;
  std::vector<std::string> choices;
};

// What the parser knows of a command, in the words of a page.
struct CommandText {
  std::string name;
  std::string description;
  std::string footer;
  std::vector<OptionText> words;  // names[0] is "FILE"
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

CommandText text_of(const CLI::App& app);

// By file name.
std::map<std::string, std::string> manual_pages(const CLI::App& app);

std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);

}  // namespace pages
