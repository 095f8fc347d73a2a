// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace cli {

std::unique_ptr<CLI::App> make_app();

// One line on why the arguments (the program's name is the first) are wrong, with a suggestion where a word is nearly one
// that there is.
std::string explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments);

}  // namespace cli
