// The texts that are made from the parser.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app.hpp"
#include "formatted.hpp"

namespace pages {

using cli::CommandText;
using cli::formatted;
using cli::OptionText;

// By file name.
std::map<std::string, std::string> manual_pages(const CommandText& program);

// Of the command and of the commands in it, each once.
std::vector<OptionText> all_options(const CommandText& command);

std::string bash_completion(const CommandText& program);
std::string zsh_completion(const CommandText& program);
std::string fish_completion(const CommandText& program);

}  // namespace pages
