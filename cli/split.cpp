// `safetensors split FILE FOLDER`: a model in shards of a bounded size, with an index.
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "commands.hpp"
#include "failure.hpp"
#include "formatted.hpp"
#include "model_names.hpp"
#include "new_model.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  safetensors split model.safetensors shards/ --max-size 5GB\n"
    "  safetensors split model.safetensors shards/ --max-size 500MB --dry-run";

struct SplitOptions {
  std::string path;
  std::string name;
  std::uint64_t most_bytes = 5'000'000'000;
  WriteSettings settings;
};

// The names of files in the folder, and in the index, which is JSON.
void check_name(const std::string& name) {
  if (name.find_first_of(std::string_view("/\\\0", 3)) != name.npos || name == "." || name == "..") {
    throw Failure{kUsage, formatted("--name {}: not the name of a file", shown(name, 100))};
  }
  if (!is_utf8(name)) throw Failure{kUsage, formatted("--name {}: not UTF-8", shown(name, 100))};
}

void split(const SplitOptions& options) {
  check_name(options.name);
  if (options.settings.out.empty()) throw Failure{kUsage, "FOLDER is empty"};
  if (is_one_file(options.settings.out))
    throw Failure{kUsage, options.settings.out + ": shards are written to a folder"};
  try {
    const Input input{options.path, safetensors::SafeOpen(options.path)};
    const std::string name = options.name.empty() ? stem_of_model(options.path, input.file) : options.name;
    write_model(in_shards(all_tensors(input.file), options.most_bytes, name, input.file), options.settings, {input});
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

}  // namespace

void add_split(Command& app) {
  const auto options = std::make_shared<SplitOptions>();
  Command command = app.add_command("split", "Write a model in shards, with an index");
  command.add_option("FILE", options->path, "A file, or a model in shards to be split anew").required();
  command.add_option("FOLDER", options->settings.out, "Where the shards go; made if it is not there").required();
  command.add_size("--max-size", options->most_bytes, "Data in a shard at most: 5GB (the default), 500MB, 4GiB")
      .shown_as("SIZE");
  command.add_option("--name", options->name, "What the shards are called: NAME-00001-of-00003.safetensors")
      .shown_as("NAME");
  command.add_flag("--dry-run", options->settings.dry_run, "Only print what would be written");
  command.footer(kExamples);
  command.on_run([options] { split(*options); });
}

}  // namespace cli
