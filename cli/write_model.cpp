// Writes models through the library's writer. The kernel copies unchanged tensors if possible.
// SPDX-License-Identifier: Apache-2.0
#include "write_model.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string>

#include "arguments.hpp"
#include "blocks.hpp"
#include "conversion.hpp"
#include "dry_run.hpp"
#include "failure.hpp"
#include "json.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "text.hpp"

namespace cli {
namespace {

using safetensors::Writer;

struct Conversion {
  std::size_t index;  // index of the tensor in the writer
  const NewTensor* tensor;
};

// One progress bar for all files of a model.
class ModelProgress {
 public:
  explicit ModelProgress(const NewModel& model) {
    for (const NewFile& file : model.files) total_ += file.bytes();
  }

  // Shows the progress of a file with `bytes` of data. The writer's total also includes the header, which it writes
  // first.
  void show(std::uint64_t bytes, std::uint64_t done, std::uint64_t total) {
    progress_.show(before_ + done - (total - bytes), total_);
  }
  void end_file(std::uint64_t bytes) { before_ += bytes; }

 private:
  Progress progress_{"writing"};
  std::uint64_t before_ = 0;  // bytes of complete files
  std::uint64_t total_ = 0;
};

// Blocks hold whole elements, as st_convert() needs them.
void convert_all(const Writer& writer, const std::vector<Conversion>& conversions, Converter& converter) {
  std::vector<Source> sources;
  sources.reserve(conversions.size());
  for (const Conversion& conversion : conversions) {
    sources.push_back({conversion.tensor->file, conversion.tensor->source});
  }
  std::vector<std::byte> values;
  const std::string no_bar;  // because the writer reports progress
  for_each_part(sources, no_bar, [&](const Part& part) {
    const Conversion& conversion = conversions[part.source];
    const safetensors::Dtype from = conversion.tensor->source.dtype;
    const safetensors::Dtype to = conversion.tensor->dtype;
    const std::size_t bytes = part.bytes.size() * safetensors::bits(to) / safetensors::bits(from);
    if (values.size() < bytes) values.resize(bytes);
    converter.convert(from, part.bytes, to, std::span(values).first(bytes));
    writer.put(conversion.index, part.at * safetensors::bits(to) / safetensors::bits(from), values.data(), bytes);
  });
}

// Returns the tensors to convert.
std::vector<Conversion> add_file(Writer& writer, const NewFile& file) {
  if (file.has_metadata) writer.set_metadata(file.metadata);
  std::vector<Conversion> conversions;
  for (const NewTensor& tensor : file.tensors) {
    if (tensor.dtype == tensor.source.dtype) {
      writer.add_tensor(tensor.source, tensor.name);
    } else {
      conversions.push_back({writer.add(tensor.name, tensor.dtype, tensor.source.shape), &tensor});
    }
  }
  return conversions;
}

st_write_options options_for(const std::string& path, std::uint32_t flags) {
  st_write_options options = ST_INIT(st_write_options);
  options.flags = flags;
  options.format = format_of_extension(path).value_or(ST_FORMAT_SAFETENSORS);
  return options;
}

// Calls `begun` when the writer has seen the file that it may replace.
void write_file(
    const NewFile& file, const std::string& path, std::uint32_t flags, Converter& converter, ModelProgress& progress,
    const std::function<void()>& begun = [] {}) {
  Writer writer;
  std::vector<Conversion> conversions = add_file(writer, file);
  const std::uint64_t data = file.bytes();
  const auto show = [&](std::uint64_t done, std::uint64_t total) {
    progress.show(data, done, total);
    return !is_interrupted();
  };
  writer.begin(path, show, options_for(path, flags));
  begun();
  // A stream needs its bytes in file order. All converted tensors have the same dtype, so file order is by name.
  std::sort(conversions.begin(), conversions.end(),
            [](const Conversion& a, const Conversion& b) { return a.tensor->name < b.tensor->name; });
  convert_all(writer, conversions, converter);
  writer.finish();
  progress.end_file(data);
}

void write_index(const NewModel& model, OutputFile& out) {
  std::uint64_t total = 0;
  std::vector<std::pair<std::string_view, std::string_view>> places;
  for (const NewFile& file : model.files) {
    total += file.bytes();
    for (const NewTensor& tensor : file.tensors) places.emplace_back(tensor.name, file.name);
  }
  std::sort(places.begin(), places.end());
  std::string lines = "{\n  \"metadata\": {\n";
  for (const auto& [key, value] : model.metadata) lines += formatted("    {}: {},\n", json_text(key), json_text(value));
  lines += formatted("    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
  const char* separator = "\n";
  for (const auto& [name, file] : places) {
    lines += formatted("{}    {}: {}", separator, json_text(name), json_text(file));
    separator = ",\n";
  }
  lines += "\n  }\n}\n";
  out.write(lines.data(), lines.size());
}

std::vector<std::string> names_of_files(const NewModel& model) {
  std::vector<std::string> names;
  for (const NewFile& file : model.files) names.push_back(file.name);
  if (!model.index.empty()) names.push_back(model.index);
  return names;
}

void write_folder(const NewModel& model, const WriteSettings& settings, Converter& converter) {
  NewFiles files(settings.out, names_of_files(model));
  ModelProgress progress(model);
  for (const NewFile& file : model.files) {
    const std::string path = in_folder(settings.out, file.name);
    files.make_next([&] { write_file(file, path, ST_WRITE_NO_REPLACE, converter, progress); });
  }
  if (!model.index.empty()) {
    OutputFile index(in_folder(settings.out, model.index), /*replace=*/false);
    write_index(model, index);
    files.make_next([&] { index.finish(); });
  }
  files.keep();
}

void check_one(const std::string& path, bool replace, const std::vector<Input>& inputs) {
  Inputs files;
  for (const Input& input : inputs) files.add(input.files);
  const Input& first = inputs.front();
  const bool is_whole = inputs.size() == 1 && first.file.count_shards() == 1 && format_of_extension(first.path);
  check_output(path, files, is_whole, replace);
}

void write_one(const NewModel& model, const std::string& path, bool replace, const Input& first, Converter& converter) {
  std::optional<InterruptGuard> guard;
  if (!is_stream(path)) guard.emplace();
  ModelProgress progress(model);
  std::uint32_t flags = replace || is_stream(path) ? std::uint32_t{0} : std::uint32_t{ST_WRITE_NO_REPLACE};
  const auto begun = first.protect(path, flags);
  write_file(model.files.front(), path, flags, converter, progress, begun);
  note_hidden(path);
}

// Rejects equal names before anything is written.
void require_different_names(const NewModel& model) {
  std::vector<const NewTensor*> tensors;
  for (const NewFile& file : model.files) {
    for (const NewTensor& tensor : file.tensors) tensors.push_back(&tensor);
  }
  std::sort(tensors.begin(), tensors.end(), [](auto* a, auto* b) { return a->name < b->name; });
  const auto same =
      std::adjacent_find(tensors.begin(), tensors.end(), [](auto* a, auto* b) { return a->name == b->name; });
  if (same == tensors.end()) return;
  throw Failure{kUsage, formatted("two tensors would be named {}: {} and {}", shown((*same)->name, 100),
                                  shown((*same)->source.name, 100), shown((*(same + 1))->source.name, 100))};
}

// Rejects names of shards that the library would not open (docs/format.md 2.2.1 and 2.4).
void require_names_for_index(const NewModel& model) {
  if (model.index.empty()) return;
  for (const NewFile& file : model.files) {
    const std::string& name = file.name;
    const bool has_drive = name.size() > 1 && name[1] == ':' && std::isalpha(static_cast<unsigned char>(name[0])) != 0;
    const char* const problem = !is_utf8(name)                      ? "is not UTF-8"
                                : name.find('\\') != name.npos      ? "contains a backslash"
                                : has_drive                         ? "begins with a drive letter"
                                : file_name(name).starts_with("._") ? "begins with '._'"
                                                                    : nullptr;
    if (problem == nullptr) continue;
    throw Failure{kUsage,
                  formatted("shard {}: an index cannot contain this name, because it {}", shown(name, 100), problem)};
  }
}

// Throws if the library rejects a file.
void print_files(const NewModel& model, const std::string& path) {
  Output out;
  for (const NewFile& file : model.files) {
    const std::string name = file.name.empty() ? path : in_folder(path, file.name);
    Writer writer;
    add_file(writer, file);
    begin_dry_run(writer, options_for(name, 0));
    out.print("{}: {}, {}\n", printable(name), counted(file.tensors.size(), "tensor"), human_bytes(file.bytes()));
  }
  if (!model.index.empty()) out.print("{}: the index\n", printable(in_folder(path, model.index)));
  out.flush();
}

}  // namespace

void WriteSettings::declare(Command& command) {
  declare_replace(command, replace);
  command.add_flag("--dry-run", dry_run, "Print what would be written, but write nothing");
}

std::function<void()> Input::protect(const std::string& out, std::uint32_t& flags) const {
  if (!files.contain(out)) return [] {};
  flags |= std::uint32_t{ST_WRITE_ONLY_UNCHANGED};
  return [this] {
    // The writer has opened the file for writing, which on overlayfs changes the time of its last change.
    const auto now = identity_of(path);
    if (now && before && now->same_bytes(*before)) return;
    throw Failure{kUnreadable, path + ": was changed or replaced by another process in the meantime"};
  };
}

std::uint64_t write_model(const NewModel& model, const WriteSettings& settings, const std::vector<Input>& inputs) {
  require_different_names(model);
  require_names_for_index(model);
  const bool one = is_one_file(settings.out);
  const std::string path = settings.out == "-" ? "/dev/stdout" : settings.out;
  if (one) {
    check_one(path, settings.replace, inputs);
  } else {
    require_no_replace(path, settings.replace);
    check_new_files(path, names_of_files(model));
  }
  if (settings.dry_run) {
    print_files(model, path);
    return 0;
  }
  Converter converter(settings.saturate);
  if (one) {
    write_one(model, path, settings.replace, inputs.front(), converter);
  } else {
    write_folder(model, settings, converter);
  }
  return converter.out_of_range();
}

std::uint64_t write_like(std::vector<NewTensor> tensors, const Input& input, const WriteSettings& settings) {
  const bool one = is_one_file(settings.out);
  if (settings.out.empty()) throw Failure{kUsage, "OUT is empty"};
  if (!one && is_other_file(settings.out)) {
    throw Failure{kUsage, formatted("{}: the extension is not {}", settings.out, known_extensions())};
  }
  return write_model(
      one ? in_one_file(std::move(tensors), input.file) : in_same_files(std::move(tensors), input.path, input.file),
      settings, {input});
}

}  // namespace cli
