// What a command declares to the parser of the command line.
//
// CLI11 takes a compiler several seconds in each file that includes it. parser.cpp and app.cpp do; all else sees these
// two classes.
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

// The parser takes a word such as [a,b] for a list, and splits it. These give it arguments (without the program's name)
// that it leaves whole: the mark is a NUL, which no argument of a process holds, and the functions below take it away.
std::vector<std::string> kept_whole(std::vector<std::string> arguments);
void unmark(std::string& argument);

// An option, or a word at a place. What changes it returns it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option shown_as(const char* value);  // in the help, instead of TEXT
  Option one_of(const std::vector<std::string>& values);
  Option may_lack_value();
  Option excludes(Option other);

  bool is_given() const;  // after parsing

 private:
  CLI::Option* option_;
};

// A command. The parser keeps references to the values, which a parsed command line changes. A name that begins with
// dashes is that of an option; another stands for the next word, or for all that follow if the value is a vector.
class Command {
 public:
  explicit Command(CLI::App* command) : command_(command) {}

  Command add_command(const char* name, const char* what);
  Option add_option(const char* name, std::string& value, const char* what = "");
  Option add_option(const char* name, std::vector<std::string>& values, const char* what = "");
  Option add_repeated(const char* name, std::vector<std::string>& values, const char* what);  // one value each time
  Option add_number(const char* name, std::uint64_t& value, const char* what);
  Option add_size(const char* name, std::uint64_t& bytes, const char* what);  // 5GB, 4GiB
  Option add_flag(const char* name, bool& value, const char* what);
  Option add_flag(const char* name, const char* what);

  void footer(const char* text);
  // What runs if the command is chosen, and none of its own commands. It keeps what the options refer to.
  void on_run(std::function<void()> run);

 private:
  CLI::App* command_;
};

}  // namespace cli
