// `safetensors split FILE FOLDER`: writes a model as shards of limited size, with an index.
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app.hpp"
#include "arguments.hpp"
#include "failure.hpp"
#include "text.hpp"
#include "write_model.hpp"

namespace cli {
namespace {

constexpr const char* kSplitExamples =
    "Examples:\n"
    "  safetensors split model.safetensors shards/ --max-size 5GB\n"
    "  safetensors split model.safetensors shards/ --max-size 500MB --dry-run";

struct SplitOptions {
  std::string path;
  std::string name;
  std::uint64_t most_bytes = 5'000'000'000;
  WriteSettings settings;
};

// Checks the base name of the shards. The index is JSON, so it must be UTF-8.
void check_name(const std::string& name) {
  if (name.find_first_of(std::string_view("/\\\0", 3)) != name.npos || name == "." || name == "..") {
    throw Failure{kUsage, formatted("--name {}: not a file name", shown(name, 100))};
  }
  if (!is_utf8(name)) throw Failure{kUsage, formatted("--name {}: not UTF-8", shown(name, 100))};
}

void split(const SplitOptions& options) {
  check_name(options.name);
  if (options.settings.out.empty()) throw Failure{kUsage, "FOLDER is empty"};
  if (is_one_file(options.settings.out))
    throw Failure{kUsage, options.settings.out + ": split writes to a folder, not to a file"};
  try {
    const Input input(options.path);
    const std::string name = options.name.empty() ? stem_of_model(options.path, input.file) : options.name;
    write_model(in_shards(all_tensors(input.file), options.most_bytes, name, input.file), options.settings, {input});
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

}  // namespace

void add_split(Command& app) {
  const auto options = std::make_shared<SplitOptions>();
  Command command = app.add_command("split", "Split a model into shards with an index");
  command.add_input("FILE", options->path, "A file or a sharded model").required();
  command.add_output("FOLDER", options->settings.out, "The folder for the shards; created if necessary").required();
  command.add_size("--max-size", options->most_bytes, "Maximum data per shard: 5GB (the default), 1.5GB, 500MiB ...")
      .shown_as("SIZE");
  command.add_option("--name", options->name, "Base name of the shards: NAME-00001-of-00003.safetensors")
      .shown_as("NAME")
      .not_empty();
  command.add_flag("--dry-run", options->settings.dry_run, "Print what would be written, but write nothing");
  command.footer(kSplitExamples);
  command.on_run([options] { split(*options); });
}

}  // namespace cli
