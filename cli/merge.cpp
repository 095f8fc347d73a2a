// `safetensors merge MODEL... OUT`: writes the tensors of a sharded model or of several files into one file.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <map>
#include <memory>

#include "app.hpp"
#include "arguments.hpp"
#include "failure.hpp"
#include "text.hpp"
#include "write_model.hpp"

namespace cli {
namespace {

constexpr const char* kMergeNotes =
    "The last argument is always OUT. If it exists, merge fails, so `merge a b` without OUT does not overwrite b.\n"
    "\n"
    "Examples:\n"
    "  safetensors merge model.safetensors.index.json model.safetensors\n"
    "  safetensors merge unet.safetensors vae.safetensors all.safetensors\n"
    "  safetensors merge shards/ - | ssh host 'cat > model.safetensors'";

struct MergeOptions {
  std::vector<std::string> paths;
  WriteSettings settings;
};

// The first value of a key wins.
void add_metadata(NewFile& whole, const NewFile& next, const std::string& path) {
  whole.has_metadata = whole.has_metadata || next.has_metadata;
  for (const auto& [key, value] : next.metadata) {
    const auto [kept, is_new] = whole.metadata.emplace(key, value);
    if (is_new || kept->second == value) continue;
    std::fprintf(stderr,
                 "safetensors: note: %s: metadata key %s is dropped, because an earlier file has another value\n",
                 printable(path).c_str(), shown(key, 100).c_str());
  }
}

// Rejects names that an earlier model already has. path_of maps names to paths.
void require_new_names(std::map<std::string, std::string>& path_of, const NewFile& next, const std::string& path) {
  for (const NewTensor& tensor : next.tensors) {
    const auto [first, is_new] = path_of.emplace(tensor.name, path);
    if (is_new) continue;
    throw Failure{kUsage, formatted("two tensors are named {}: one in {} and one in {}", shown(tensor.name, 100),
                                    shown(first->second, 1000), shown(path, 1000))};
  }
}

void merge(const MergeOptions& options) {
  if (!is_one_file(options.settings.out)) {
    throw Failure{kUsage,
                  formatted("{}: the extension is not {}", shown(options.settings.out, 1000), known_extensions())};
  }
  NewModel model;
  NewFile& whole = model.files.emplace_back();
  std::vector<Input> inputs;
  std::map<std::string, std::string> path_of;  // by tensor name
  for (const std::string& path : options.paths) {
    try {
      inputs.emplace_back(path);
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
  Command command = app.add_command("merge", "Merge a sharded model or several files into one file");
  // The parser gives all words to this positional, including OUT.
  command
      .add_input("MODEL", options->paths, "Files, indexes of shards or model folders, followed by the output file or -")
      .shown_as("... OUT")
      .required();
  options->settings.declare(command);
  command.footer(kMergeNotes);
  command.on_run([options] {
    if (options->paths.size() < 2) throw Failure{kUsage, "merge needs at least one MODEL, followed by OUT"};
    options->settings.out = options->paths.back();
    options->paths.pop_back();
    if (is_url(options->settings.out)) {
      throw Failure{kUsage, options->settings.out + " is a URL, which cannot be written"};
    }
    merge(*options);
  });
}

}  // namespace cli
