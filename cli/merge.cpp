// `safetensors merge MODEL... OUT`: the tensors of a model in shards, or of several files, in one file.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <map>
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
    "  safetensors merge model.safetensors.index.json model.safetensors\n"
    "  safetensors merge unet.safetensors vae.safetensors all.safetensors\n"
    "  safetensors merge shards/ - | ssh host 'cat > model.safetensors'";

struct MergeOptions {
  std::vector<std::string> paths;
  WriteSettings settings;
};

// Of a key that two files have, the first value counts.
void add_metadata(NewFile& whole, const NewFile& next, const std::string& path) {
  whole.has_metadata = whole.has_metadata || next.has_metadata;
  for (const auto& [key, value] : next.metadata) {
    const auto [kept, is_new] = whole.metadata.emplace(key, value);
    if (is_new || kept->second == value) continue;
    std::fprintf(stderr, "safetensors: note: %s: its metadata for %s is dropped, an earlier file has another value\n",
                 printable(path).c_str(), shown(key, 100).c_str());
  }
}

// Before the tensors of a model join the others: which of its names is there already, and where.
void require_new_names(std::map<std::string, std::string>& path_of, const NewFile& next, const std::string& path) {
  for (const NewTensor& tensor : next.tensors) {
    const auto [first, is_new] = path_of.emplace(tensor.name, path);
    if (is_new) continue;
    throw Failure{kUsage, formatted("two tensors would be called {}: one of {} and one of {}", shown(tensor.name, 100),
                                    shown(first->second, 1000), shown(path, 1000))};
  }
}

void merge(const MergeOptions& options) {
  if (!is_one_file(options.settings.out)) {
    throw Failure{kUsage, shown(options.settings.out, 1000) + ": not .safetensors, .bt or .bintensors"};
  }
  NewModel model;
  NewFile& whole = model.files.emplace_back();
  std::vector<Input> inputs;
  std::map<std::string, std::string> path_of;  // by the names of tensors
  for (const std::string& path : options.paths) {
    try {
      inputs.push_back({path, safetensors::SafeOpen(path)});
      NewModel one = in_one_file(all_tensors(inputs.back().file), inputs.back().file);
      require_new_names(path_of, one.files.front(), path);
      add_metadata(whole, one.files.front(), path);
      for (NewTensor& tensor : one.files.front().tensors) whole.tensors.push_back(std::move(tensor));
    } catch (const safetensors::Error& error) {
      throw failure_in(path, error);
    }
  }
  try {
    write_model(model, options.settings, inputs);
  } catch (const safetensors::Error& error) {
    throw failure_in(options.settings.out, error);
  }
}

}  // namespace

void add_merge(Command& app) {
  const auto options = std::make_shared<MergeOptions>();
  Command command = app.add_command("merge", "Write a model of many files, or several files, as one");
  // The parser gives all words to an option that takes several, the last one, too.
  command.add_option("MODEL", options->paths, "Indexes of shards, their folders, or files; and the file to write, or -")
      .shown_as("... OUT")
      .required();
  options->settings.declare(command);
  command.footer(kExamples);
  command.on_run([options] {
    if (options->paths.size() < 2) throw Failure{kUsage, "merge wants what to read and, last, the file to write"};
    options->settings.out = options->paths.back();
    options->paths.pop_back();
    merge(*options);
  });
}

}  // namespace cli
