// Generates the manual pages and the completions for bash, zsh and fish from the command's parser, during the build.
//
//     safetensors_pages FOLDER
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <safetensors/safetensors.h>

#include "app.hpp"
#include "text.hpp"

namespace {

using cli::CommandText;
using cli::formatted;
using cli::OptionText;

// Returns the options of a command and of its subcommands, each once.
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

// ---- manual pages in man(7) -----------------------------------------------------------------------------------------

// Escapes text for roff. Each - is written so that it can be copied as an ASCII hyphen.
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

// start: the roff text before the options.
std::string synopsis(const std::string& start, const CommandText& command) {
  std::string out = start;
  if (!command.options.empty()) out += " [\\fIOPTION\\fR]...";
  out += word_list(command);
  if (!command.commands.empty()) out += command.needs_command ? " \\fICOMMAND\\fR ..." : " [\\fICOMMAND\\fR ...]";
  return out + "\n";
}

// Headings such as "Examples:" become sections. Line breaks in them are kept.
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

// Returns one page for the program and one for each command, keyed by file name.
std::map<std::string, std::string> manual_pages(const CommandText& program) {
  std::map<std::string, std::string> all;
  std::string main = page("safetensors", program, program.options);  // options of commands are on their own pages
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

// ---- completions ----------------------------------------------------------------------------------------------------

constexpr const char* kHead = "# Generated from the command's parser.\n";

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string names_of(const std::vector<OptionText>& options) {
  std::string out;
  for (const OptionText& option : options) out += (out.empty() ? "" : " ") + joined(option.names);
  return out;
}

std::string names_of_commands(const CommandText& command) {
  std::string out;
  for (const CommandText& inner : command.commands) out += (out.empty() ? "" : " ") + inner.name;
  return out;
}

// Escapes text for a shell's quotes and zsh's brackets.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '[' || c == ']' || c == ':') {
      out += std::string("\\") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string fish_quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string bash_completion(const CommandText& program) {
  std::string out = kHead;
  out +=
      "_safetensors() {\n  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
      "  local before=${COMP_WORDS[COMP_CWORD-1]} options= words=\n  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  out += formatted("    COMPREPLY=($(compgen -W '{} {}' -- \"$word\"))\n    return\n  fi\n  case $command in\n",
                   names_of_commands(program), names_of(program.options));
  for (const CommandText& command : program.commands) {
    out += formatted("    {}) options='{}' words='{}' ;;\n", command.name, names_of(all_options(command)),
                     names_of_commands(command));
  }
  out += "  esac\n  case $before in\n";
  for (const CommandText& command : program.commands) {
    for (const OptionText& option : command.options) {
      if (option.choices.empty()) continue;
      out += formatted("    {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n", option.names.back(),
                       joined(option.choices));
    }
  }
  out +=
      "  esac\n  case $word in\n    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n       local IFS=$'\\n'\n"
      "       COMPREPLY+=($(compgen -f -- \"$word\")) ;;\n  esac\n}\n"
      "complete -o filenames -F _safetensors safetensors\n";
  return out;
}

std::string zsh_completion(const CommandText& program) {
  std::string out = std::string("#compdef safetensors\n") + kHead + "_safetensors() {\n  local -a commands=(\n";
  for (const CommandText& command : program.commands) {
    out += formatted("    '{}:{}'\n", command.name, quoted(command.description));
  }
  out += "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n  case $words[2] in\n";
  for (const CommandText& command : program.commands) {
    out += formatted("    {})\n      _arguments -s", command.name);
    for (const OptionText& option : all_options(command)) {
      const std::string choices = option.choices.empty() ? "" : "(" + joined(option.choices) + ")";
      const std::string value = option.value.empty() ? "" : ":" + quoted(option.value) + ":" + choices;
      for (const std::string& name : option.names) {
        out += formatted(" \\\n        '*{}[{}]{}'", name, quoted(option.description), value);
      }
    }
    out += " \\\n        '*:file:_files'\n      ;;\n";
  }
  return out + "  esac\n}\n_safetensors \"$@\"\n";
}

std::string fish_completion(const CommandText& program) {
  std::string out = kHead;
  for (const CommandText& command : program.commands) {
    out += formatted("complete -c safetensors -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                     fish_quoted(command.description));
  }
  for (const CommandText& command : program.commands) {
    for (const OptionText& option : all_options(command)) {
      std::string line = formatted("complete -c safetensors -n '__fish_seen_subcommand_from {}'", command.name);
      for (const std::string& name : option.names) {
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.value.empty()) line += " -r";
      if (!option.choices.empty()) line += " -a '" + joined(option.choices) + "'";
      out += line + formatted(" -d '{}'\n", fish_quoted(option.description));
    }
  }
  return out;
}

// ---- files ----------------------------------------------------------------------------------------------------------

void save(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error(path.string() + " cannot be written");
}

void write_all(const std::filesystem::path& folder) {
  const CommandText program = cli::describe_program();
  std::filesystem::create_directories(folder);
  for (const auto& [name, text] : manual_pages(program)) save(folder / name, text);
  save(folder / "safetensors.bash", bash_completion(program));
  save(folder / "_safetensors", zsh_completion(program));
  save(folder / "safetensors.fish", fish_completion(program));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    write_all(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "safetensors_pages: %s\n", error.what());
    return 1;
  }
}
