// Manual pages in the language of man(7): one of the program, and one of each command.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.h>

#include <algorithm>

#include "pages.hpp"

namespace pages {
namespace {

// Text in which nothing is a request or an escape of roff, and every - can be copied.
std::string roff(const std::string& text) {
  std::string out;
  bool first = true;
  for (const char c : text) {
    if (first && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    first = c == '\n';
  }
  return out;
}

std::string option_list(const std::vector<OptionText>& options) {
  std::string out;
  for (const OptionText& option : options) {
    std::string names;
    for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + ("\\fB" + roff(name) + "\\fR");
    if (!option.value.empty()) names += " \\fI" + roff(option.value) + "\\fR";
    out += ".TP\n" + names + "\n" + roff(option.description) + "\n";
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }

std::string word_list(const CommandText& command) {
  std::string out;
  for (const OptionText& word : command.words) out += " \\fI" + roff(word.names[0]) + "\\fR";
  return out;
}

// start: what stands before the options, as roff.
std::string synopsis(const std::string& start, const CommandText& command) {
  std::string out = start;
  if (!command.options.empty()) out += " [\\fIOPTION\\fR]...";
  out += word_list(command);
  if (!command.commands.empty()) out += command.needs_command ? " \\fICOMMAND\\fR ..." : " [\\fICOMMAND\\fR ...]";
  return out + "\n";
}

// "Examples:" and its like become headings, and the lines below them stay as they are.
std::string footer_text(const std::string& footer) {
  std::string out;
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (paragraph.empty()) return;
    const std::size_t line = paragraph.find('\n');
    const std::string first = paragraph.substr(0, line);
    const bool heading = first.ends_with(':') && first.find(' ') == std::string::npos ? true : first == "Exit codes:";
    if (heading) {
      std::string title = first.substr(0, first.size() - 1);
      for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      out += ".SH \"" + title + "\"\n.nf\n" + roff(paragraph.substr(line + 1)) + ".fi\n";
    } else {
      out += ".SH NOTES\n" + roff(paragraph);
    }
    paragraph.clear();
  };
  std::size_t at = 0;
  while (at < footer.size()) {
    const std::size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    line.empty() ? end_paragraph() : static_cast<void>(paragraph += line + "\n");
    at = end + 1;
  }
  end_paragraph();
  return out;
}

std::string page(const std::string& program, const CommandText& command, const std::vector<OptionText>& options) {
  std::string dashed = program;
  for (char& c : dashed) c = c == ' ' ? '-' : c;
  std::string out = formatted(".TH {} 1 \"\" \"safetensors {}.{}.{}\"\n", dashed, ST_VERSION_MAJOR, ST_VERSION_MINOR,
                              ST_VERSION_PATCH);
  out += ".SH NAME\n" + roff(dashed) + " \\- " + roff(command.description) + "\n.SH SYNOPSIS\n" +
         synopsis(bold(program), command);
  for (const CommandText& inner : command.commands) {
    out += ".br\n" + synopsis(bold(program) + word_list(command) + " " + bold(inner.name), inner);
  }
  out += ".SH DESCRIPTION\n" + roff(command.description) + ".\n";
  out += option_list(command.words);
  if (!command.commands.empty()) out += ".SH COMMANDS\n";
  for (const CommandText& inner : command.commands) {
    out += ".TP\n\\fB" + roff(inner.name) + "\\fR\n" + roff(inner.description) + "\n";
  }
  out += ".SH OPTIONS\n" + option_list(options) + footer_text(command.footer);
  return out;
}

}  // namespace

std::vector<OptionText> all_options(const CommandText& command) {
  std::vector<OptionText> all = command.options;
  for (const CommandText& inner : command.commands) {
    for (const OptionText& option : inner.options) {
      const auto same = [&](const OptionText& other) { return other.names == option.names; };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(option);
    }
  }
  return all;
}

std::map<std::string, std::string> manual_pages(const CommandText& program) {
  std::map<std::string, std::string> all;
  std::string main = page("safetensors", program, program.options);  // those of commands are on pages of their own
  main += ".SH \"SEE ALSO\"\n";
  for (std::size_t i = 0; i < program.commands.size(); ++i) {
    const CommandText& command = program.commands[i];
    main += formatted(".BR safetensors\\-{} (1){}\n", command.name, i + 1 == program.commands.size() ? "" : ",");
    all.emplace(
        "safetensors-" + command.name + ".1",
        page("safetensors " + command.name, command, all_options(command)) + ".SH \"SEE ALSO\"\n.BR safetensors (1)\n");
  }
  all.emplace("safetensors.1", main);
  return all;
}

}  // namespace pages
