// Declares the options and positional words of a command.
//
// Only arguments.cpp and app.cpp include CLI11, which takes several seconds to compile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cli {

// CLI11 splits a word such as [a,b] at its commas. kept_whole() prevents that by prepending a NUL, which process
// arguments never contain. unmark() removes it.
std::vector<std::string> kept_whole(std::vector<std::string> arguments);
void unmark(std::string& argument);

// An option or a positional word. Its functions return it, for chaining.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option shown_as(const char* value);  // name of its value in the help, instead of TEXT
  Option one_of(const std::vector<std::string>& values);
  Option may_lack_value();
  Option not_empty();
  Option excludes(Option other);

  bool is_given() const;  // after parsing

 private:
  CLI::Option* option_;
};

// A command. The parser keeps references to the values and sets them during parsing. A name with dashes is an option.
// Any other name is the next positional word, or all remaining words if the value is a vector.
class Command {
 public:
  explicit Command(CLI::App* command) : command_(command) {}

  Command add_command(const char* name, const char* what);
  Option add_option(const char* name, std::string& value, const char* what = "");
  Option add_option(const char* name, std::vector<std::string>& values, const char* what = "");
  // A model to read: a path, or a URL, whose query is hidden from the command (remote.hpp).
  Option add_input(const char* name, std::string& path, const char* what = "");
  Option add_input(const char* name, std::vector<std::string>& paths, const char* what = "");
  // A file or a folder to write. A URL is an error.
  Option add_output(const char* name, std::string& path, const char* what = "");
  Option add_repeated(const char* name, std::vector<std::string>& values, const char* what);  // one value per use
  Option add_number(const char* name, std::uint64_t& value, const char* what);
  Option add_size(const char* name, std::uint64_t& bytes, const char* what);  // 5GB, 1.5GB, 4GiB
  Option add_flag(const char* name, bool& value, const char* what);
  Option add_flag(const char* name, const char* what);

  void footer(const char* text);
  // Sets the function to run if the command is chosen, but none of its subcommands. `run` owns the values of the
  // options.
  void on_run(std::function<void()> run);

 private:
  CLI::App* command_;
};

}  // namespace cli
