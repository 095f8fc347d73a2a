// `safetensors convert A B`: writes the same tensors and metadata in another format.
//
// The library's writer rejects unsupported tensors before it touches B, copies data inside the kernel if possible, and
// writes atomically. cli/import reads the formats of other programs.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "app.hpp"
#include "arguments.hpp"
#include "dry_run.hpp"
#include "failure.hpp"
#include "import/import.hpp"
#include "new_model.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "remote.hpp"
#include "system.hpp"
#include "text.hpp"
#include "write_model.hpp"

namespace cli {
namespace {

constexpr const char* kConvertExamples =
    "Examples:\n"
    "  safetensors convert model.safetensors model.bt\n"
    "  safetensors convert model.bt model.safetensors\n"
    "  safetensors convert model.bt - --to safetensors | ssh host 'cat > model.safetensors'\n"
    "  safetensors convert pytorch_model.bin model.safetensors\n"
    "  safetensors convert last.ckpt model.safetensors --key model_state_dict --dry-run\n"
    "  safetensors convert old/pytorch_model.bin.index.json new/";

struct ConvertOptions {
  std::string from;
  std::string into;
  std::string format;
  bool replace = false;
  std::string key;
  bool keep_shared = false;
  bool dry_run = false;
};

st_format format_of(const ConvertOptions& options) {
  const auto format = format_of_extension(options.format.empty() ? options.into : "B." + options.format);
  if (format) return *format;
  throw Failure{kUsage, formatted("{}: the extension is not {}; choose a format with --to", shown(options.into, 1000),
                                  known_extensions())};
}

// Adds all tensors and metadata to the writer. Returns the metadata, including that of all shards.
safetensors::Metadata add_all(safetensors::Writer& writer, const safetensors::SafeOpen& file) {
  const NewModel model = in_one_file({}, file);
  const NewFile& whole = model.files.front();
  if (whole.has_metadata) writer.set_metadata(whole.metadata);
  for (const safetensors::Tensor& tensor : file) writer.add_tensor(tensor);
  return whole.metadata;
}

// `begun` is called when the writer has seen the file that it may replace.
void convert(const safetensors::SafeOpen& file, const std::string& into, const st_write_options& options,
             const std::function<void()>& begun) {
  std::optional<InterruptGuard> guard;
  if (!is_stream(into)) guard.emplace();
  Progress progress("converting");
  const auto show = [&](std::uint64_t done, std::uint64_t total) {
    progress.show(done, total);
    return !is_interrupted();
  };
  safetensors::Writer writer;
  add_all(writer, file);
  writer.begin(into, show, options);
  begun();
  writer.finish();
}

void print_plan(const safetensors::SafeOpen& file, const std::string& into, const st_write_options& options) {
  safetensors::Writer writer;
  const safetensors::Metadata metadata = add_all(writer, file);
  PlannedFile plan(into);
  for (const safetensors::Tensor& tensor : file) plan.add(tensor.name, tensor.dtype, tensor.shape, tensor.nbytes());
  begin_dry_run(writer, options);
  plan.print(metadata);
}

// Checkpoints of other programs are read from files only.
void require_own_format(const std::string& url) {
  const std::string name = last_part(url);
  if (name.ends_with(".bin.index.json") || (is_other_file(name) && !is_index_name(name))) {
    throw Failure{kUsage, url + ": checkpoints of other programs are converted from files, not from URLs"};
  }
}

void run(ConvertOptions options) {
  const bool remote = is_url(options.from);
  remote ? require_own_format(options.from) : static_cast<void>(options.from = importer::checkpoint_in(options.from));
  const bool is_index = !remote && importer::is_importable_index(options.from);
  st_write_options write = ST_INIT(st_write_options);
  write.progress = [](void*, std::uint64_t, std::uint64_t) -> std::int32_t { return is_interrupted() ? 1 : 0; };
  std::string at = options.from;
  try {
    std::optional<Input> index;  // opened first, to report a damaged index before an unsuitable B
    if (!is_index && !remote && is_index_name(options.from)) index.emplace(options.from);
    if (!is_index && is_index_name(options.into))
      throw Failure{kUsage, options.into + ": this is a name for an index of shards, not for a single file"};
    if (!is_index) write.format = format_of(options);
    if (is_index && options.format == "bintensors")
      throw Failure{kUsage, "--to bintensors: shards are always converted to safetensors"};
    if (is_index) {
      require_no_replace(options.into, options.replace);
      return importer::import_index(
          {options.from, options.into, write, options.keep_shared, options.key, options.dry_run});
    }
    const std::string into = options.into == "-" ? "/dev/stdout" : options.into;
    if (!options.replace && !is_stream(into)) write.flags |= ST_WRITE_NO_REPLACE;
    if (!remote && importer::is_importable(options.from)) {
      at = into;
      check_output(at, Inputs({options.from}), /*may_be_input=*/false, options.replace);
      importer::import_file({options.from, at, write, options.keep_shared, options.key, options.dry_run});
      if (!options.dry_run) note_hidden(at);
      return;
    }
    if (!options.key.empty()) throw Failure{kUsage, "--key: only torch checkpoints contain dictionaries"};
    const Input input = index ? std::move(*index) : Input(options.from);
    at = into;
    const bool is_model = input.file.count_shards() > 1 || is_index_name(options.from) || is_folder(options.from);
    check_output(at, input.files, !is_model, options.replace);
    const auto begun = input.protect(at, write.flags);
    if (options.dry_run) return print_plan(input.file, at, write);
    convert(input.file, at, write, begun);
    note_hidden(at);
  } catch (const safetensors::Error& error) {
    throw failure_in(at, error);
  }
}

}  // namespace

void add_convert(Command& app) {
  const auto options = std::make_shared<ConvertOptions>();
  Command command = app.add_command("convert", "Convert a model to safetensors or bintensors");
  command
      .add_input("A", options->from,
                 "A safetensors, bintensors, torch, numpy or GGUF file, an index of shards, or a model folder")
      .required();
  command
      .add_output("B", options->into,
                  "Output file (.safetensors, .bt, .bintensors), - for standard output, or a folder for shards")
      .required();
  command.add_option("--to", options->format, "Format of B (default: from its extension)")
      .shown_as("FORMAT")
      .one_of({"safetensors", "bintensors"});
  declare_replace(command, options->replace);
  command.add_flag("--keep-shared", options->keep_shared,
                   "torch: also write tensors that share elements with other tensors");
  command.add_option("--key", options->key, "torch: convert only this dictionary, such as model_state_dict")
      .shown_as("KEY")
      .not_empty();
  command.add_flag("--dry-run", options->dry_run, "Print what would be written, but write nothing");
  command.footer(kConvertExamples);
  command.on_run([options] { run(*options); });
}

}  // namespace cli
