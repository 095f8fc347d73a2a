// Writes the manual pages and the completions of shells from the command's parser, when the command is built.
//
//     safetensors_pages FOLDER
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "pages.hpp"

namespace {

void save(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error(path.string() + " cannot be written");
}

void write_all(const std::filesystem::path& folder) {
  const cli::CommandText program = cli::describe_program();
  std::filesystem::create_directories(folder);
  for (const auto& [name, text] : pages::manual_pages(program)) save(folder / name, text);
  save(folder / "safetensors.bash", pages::bash_completion(program));
  save(folder / "_safetensors", pages::zsh_completion(program));
  save(folder / "safetensors.fish", pages::fish_completion(program));
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
