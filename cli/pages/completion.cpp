// Completions for bash, zsh and fish: commands, their options, and the values of those that have few.
// SPDX-License-Identifier: Apache-2.0

#include "pages.hpp"

namespace pages {
namespace {

constexpr const char* kHead = "# Made from the parser of the command.\n";

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

// For the quotes of a shell, and for zsh's brackets.
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

}  // namespace

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

}  // namespace pages
