// `safetensors meta FILE [get|set|rm]`: lists and edits the metadata of a file.
//
// st_edit_metadata makes all changes or none, and does not change the tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "arguments.hpp"
#include "failure.hpp"
#include "json.hpp"
#include "output.hpp"
#include "remote.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kMetaExamples =
    "Examples:\n"
    "  safetensors meta model.safetensors\n"
    "  safetensors meta model.safetensors --json | jq .\n"
    "  safetensors meta model.safetensors get format\n"
    "  safetensors meta model.safetensors set format=pt 'title=A model'\n"
    "  safetensors meta model.safetensors rm title";

struct MetaOptions {
  std::string path;
  std::string key;
  std::vector<std::string> pairs;
  std::vector<std::string> keys;
  std::uint64_t reserve = 0;
  bool json = false;
  bool sync = false;
};

using safetensors::Metadata;
using Changes = std::map<std::string, std::optional<std::string>>;

void list(const MetaOptions& options) {
  const Metadata metadata = open_model(options.path).metadata();
  Output out;
  if (options.json) {
    out.write(json_text(metadata.empty() ? Json::object() : Json(metadata)) + "\n");
  } else {
    std::size_t width = 0;
    for (const auto& [key, value] : metadata) width = std::max(width, width_of(shown(key, 100)));
    for (const auto& [key, value] : metadata) out.print("{:{}}  {}\n", shown(key, 100), width, shown(value, 100));
  }
  out.flush();
}

// Prints the exact bytes of the value and a newline. For a terminal, escapes control characters.
void get(const MetaOptions& options) {
  const Metadata metadata = open_model(options.path).metadata();
  const auto found = metadata.find(options.key);
  if (found == metadata.end()) throw Failure{kUsage, options.path + ": no metadata key " + shown(options.key, 100)};
  Output out;
  const bool as_it_is = !output_is_terminal();
  out.write((options.json ? json_text(found->second) : as_it_is ? found->second : printable(found->second)) + "\n");
  out.flush();
}

// Rejects a model of several files, because each file has its own metadata.
void require_one_file(const std::string& path) {
  if (!is_index_name(path) && !is_folder(path)) return;
  const safetensors::SafeOpen model(path);  // reports a missing or invalid model first
  throw Failure{kUsage, shown(path, 1000) + ": set and rm change one file; name one of the model's files"};
}

void edit(const MetaOptions& options, const Changes& changes) {
  require_one_file(options.path);
  st_write_options writing = ST_INIT(st_write_options);
  writing.flags = options.sync ? ST_WRITE_SYNC : 0;
  writing.header_reserve = options.reserve;
  const InterruptGuard whole;  // an interruption leaves no temporary file
  safetensors::edit_metadata(options.path, changes, writing);
  stop_if_interrupted();
}

void set(const MetaOptions& options) {
  require_local(options.path, "meta set changes");
  Changes changes;
  for (const std::string& pair : options.pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos) throw Failure{kUsage, "set needs KEY=VALUE, not " + shown(pair, 100)};
    changes.insert_or_assign(pair.substr(0, equals), pair.substr(equals + 1));  // the last value wins
  }
  const Metadata before = safetensors::SafeOpen(options.path).metadata();
  try {
    edit(options, changes);
  } catch (const safetensors::Error& error) {
    // The file was valid before the edit, so the new metadata is invalid, which is a usage error.
    const Failure failure = failure_in(options.path, error);
    throw Failure{failure.code == kBadFile ? kUsage : failure.code, failure.line};
  }
  if (before.empty() && !changes.contains("format")) {
    std::fprintf(
        stderr,
        "safetensors: note: transformers rejects a file whose metadata lacks 'format'; 'set format=pt' adds it\n");
  }
}

void remove(const MetaOptions& options) {
  require_local(options.path, "meta rm changes");
  Changes changes;
  for (const std::string& key : options.keys) changes.emplace(key, std::nullopt);
  edit(options, changes);
}

template <class Work>
std::function<void()> on_file(const std::shared_ptr<MetaOptions>& options, const Work& work) {
  return [options, work] {
    try {
      work(*options);
    } catch (const safetensors::Error& error) {
      throw failure_in(options->path, error);
    }
  };
}

void add_editing(Command& command, MetaOptions& options) {
  command.add_flag("--sync", options.sync, "Wait until the change is on disk and survives a power failure");
  command
      .add_number("--reserve", options.reserve,
                  "If the file is rewritten, reserve N bytes in its header for later changes")
      .shown_as("N");
}

}  // namespace

void add_meta(Command& app) {
  const auto options = std::make_shared<MetaOptions>();
  Command command = app.add_command("meta", "List or edit the metadata of a file");
  command.add_input("FILE", options->path, "A .safetensors file").required();
  command.add_flag("--json", options->json, "Print a JSON object of strings, {} if there is no metadata");
  command.footer(kMetaExamples);

  Command get_one = command.add_command("get", "Print one value");
  get_one.add_option("KEY", options->key, "The key").required();
  get_one.add_flag("--json", options->json, "Print a JSON string");
  Command set_pairs = command.add_command("set", "Set keys, all or nothing");
  // CLI11 2.4 and later reject a name with '='.
  set_pairs.add_option("PAIR", options->pairs, "A key, an equals sign, and the new value")
      .shown_as("KEY=VALUE ...")
      .required();
  add_editing(set_pairs, *options);
  Command remove_keys = command.add_command("rm", "Remove keys, all or nothing");
  remove_keys.add_option("KEY", options->keys, "Keys; missing ones are ignored").required();
  add_editing(remove_keys, *options);

  get_one.on_run(on_file(options, get));
  set_pairs.on_run(on_file(options, set));
  remove_keys.on_run(on_file(options, remove));
  command.on_run(on_file(options, list));
}

}  // namespace cli
