// `safetensors cat FILE TENSOR` and `safetensors extract FILE TENSOR OUT`: one tensor, or a slice of it, as bytes.
//
// The bytes are copied in blocks, because a tensor may be larger than the memory: a slice is halved along its first
// dimension until the parts are small, which keeps the order of the bytes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "failure.hpp"
#include "name_filter.hpp"
#include "new_model.hpp"
#include "npy.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "slice_text.hpp"
#include "suggestion.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{64} << 20;

struct Options {
  std::string path;
  std::string tensor;
  std::string slice;
  std::string out;  // empty: standard output
  bool npy = false;
  NameFilter filter;       // of several tensors
  WriteSettings settings;  // for them
};

using Ranges = std::vector<safetensors::Range>;

// Reads one block after another into the same memory, by plans, which read fast from a disk.
class Copier {
 public:
  Copier(const safetensors::SafeOpen& file, const safetensors::Tensor& tensor, OutputFile& out, std::uint64_t total)
      : file_(file), tensor_(tensor), out_(out), total_(total), progress_(shown(tensor.name, 40)) {}

  void copy(const Ranges& ranges, const safetensors::Slice& part) {
    if (part.nbytes() == 0) return;
    const std::optional<std::size_t> d = part.nbytes() > kBlockBytes ? first_of_many(part.shape) : std::nullopt;
    if (!d) return copy_block(part);
    const auto half = static_cast<std::int64_t>(half_of(part.shape[*d]));
    const std::int64_t middle = first_of(ranges[*d], tensor_.shape[*d]) + ranges[*d].step * half;
    Ranges front = ranges;
    front[*d].end = middle;
    Ranges back = ranges;
    back[*d].begin = middle;
    const std::optional<safetensors::Slice> before = in_whole_bytes(front);
    if (!before) return copy_block(part);
    copy(front, *before);
    copy(back, tensor_.slice(back));
  }

 private:
  // Returns the dimension to be halved: the first that is not 1, because only that keeps the order of the bytes.
  static std::optional<std::size_t> first_of_many(const std::vector<std::uint64_t>& shape) {
    const auto found = std::find_if(shape.begin(), shape.end(), [](std::uint64_t n) { return n > 1; });
    return found == shape.end() ? std::nullopt : std::optional<std::size_t>(found - shape.begin());
  }

  // Rows of less than 8 bits per element may end inside a byte, but eight rows never do.
  static std::uint64_t half_of(std::uint64_t length) {
    constexpr std::uint64_t kWhole = 8;
    const std::uint64_t half = length / 2;
    return half >= kWhole ? half / kWhole * kWhole : half;
  }

  std::optional<safetensors::Slice> in_whole_bytes(const Ranges& ranges) const {
    try {
      return tensor_.slice(ranges);
    } catch (const safetensors::Error& error) {
      if (error.status() == ST_ERR_MISALIGNED) return std::nullopt;
      throw;
    }
  }

  // Returns the first position of a range, counted from the front.
  static std::int64_t first_of(const safetensors::Range& range, std::uint64_t dimension) {
    const auto length = static_cast<std::int64_t>(dimension);
    const std::int64_t begin = range.begin.value_or(range.step < 0 ? length - 1 : 0);
    if (begin < 0) return std::max<std::int64_t>(begin + length, 0);
    return range.step < 0 ? std::min(begin, length - 1) : begin;
  }

  void copy_block(const safetensors::Slice& part) {
    const auto bytes = static_cast<std::size_t>(part.nbytes());
    if (bytes > memory_.size()) {
      memory_ = {};  // first, so that there are never two blocks in memory
      memory_ = safetensors::Buffer(bytes);
    }
    safetensors::Plan plan(file_);
    plan.add(part, memory_.data(), bytes);
    plan.run();
    out_.write(memory_.data(), bytes);
    done_ += bytes;
    progress_.show(done_, total_);
  }

  const safetensors::SafeOpen& file_;
  const safetensors::Tensor& tensor_;
  OutputFile& out_;
  const std::uint64_t total_;
  std::uint64_t done_ = 0;
  safetensors::Buffer memory_;
  Progress progress_;
};

safetensors::Slice part_of(const safetensors::Tensor& tensor, const Ranges& ranges) {
  try {
    return tensor.slice(ranges);
  } catch (const safetensors::Error& error) {
    if (error.status() == ST_ERR_MISALIGNED) throw Failure{kUsage, error.what()};  // the file is not at fault
    throw;
  }
}

std::vector<std::uint64_t> kept(const std::vector<std::uint64_t>& shape, const SliceText& slice) {
  std::vector<std::uint64_t> kept;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!slice.dropped[d]) kept.push_back(shape[d]);
  }
  return kept;
}

safetensors::Tensor tensor_of(const safetensors::SafeOpen& file, const Options& options) {
  try {
    return file.get_tensor(options.tensor);
  } catch (const safetensors::Error& error) {
    const Failure failure = failure_in(options.path, error);
    throw Failure{failure.code, failure.line + did_you_mean(options.tensor, file.offset_keys())};
  }
}

void extract(const Options& options) {
  try {
    const safetensors::SafeOpen file(options.path);
    const safetensors::Tensor tensor = tensor_of(file, options);
    const SliceText slice = parse_slice(options.slice, tensor.shape);
    const safetensors::Slice part = part_of(tensor, slice.ranges);
    const std::string header = options.npy ? npy_header(tensor, kept(part.shape, slice)) : "";
    const Inputs inputs(options.path, file);
    OutputFile out(options.out, inputs);
    out.write(header.data(), header.size());
    Copier(file, tensor, out, part.nbytes()).copy(slice.ranges, part);
    out.finish();
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

constexpr const char* kCatExamples =
    "Examples:\n"
    "  safetensors cat model.safetensors wte.weight | sha256sum\n"
    "  safetensors cat model.safetensors wte.weight --slice '0, :8' | od -t f4\n"
    "  safetensors cat model.safetensors wte.weight --npy | python3 -c 'import sys, io, numpy; "
    "print(numpy.load(io.BytesIO(sys.stdin.buffer.read())).mean())'";

constexpr const char* kExtractExamples =
    "Examples:\n"
    "  safetensors extract model.safetensors wte.weight wte.npy\n"
    "  safetensors extract model.safetensors wte.weight first_rows.bin --slice ':1000'\n"
    "  safetensors extract model.safetensors wte.weight columns.npy --slice ':, 256:512'\n"
    "  safetensors extract model.safetensors --filter 'vision.*' vision.safetensors";

Command add(Command& app, const char* name, const char* what, const char* tensor, Options& options) {
  Command command = app.add_command(name, what);
  command.add_option("FILE", options.path, "A .safetensors file, an index of shards, or their folder").required();
  command.add_option("TENSOR", options.tensor, tensor).required();
  command.add_option("--slice", options.slice, "A part, as in Python: '1:3, :, -1, ::2'").shown_as("SLICE");
  command.add_flag("--npy", options.npy, "numpy's format instead of the bytes alone");
  return command;
}

// The parser has taken the third word for the tensor's name, which is left out.
void extract_all(Options& options) {
  if (!options.out.empty()) throw Failure{kUsage, "either a tensor or --filter, not both"};
  if (options.npy || !options.slice.empty()) throw Failure{kUsage, "--npy and --slice are for one tensor"};
  options.settings.out = options.tensor;
  options.filter.check();
  try {
    const Input input{options.path, safetensors::SafeOpen(options.path)};
    options.filter.require_one(options.path, {input.file});
    std::vector<NewTensor> tensors = all_tensors(input.file);
    std::erase_if(tensors, [&](const NewTensor& tensor) { return !options.filter.fits(tensor.name); });
    write_like(std::move(tensors), input, options.settings);
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

void add_cat(Command& app) {
  const auto options = std::make_shared<Options>();
  Command command = add(app, "cat", "Write one tensor's bytes to standard output", "Its name", *options);
  command.footer(kCatExamples);
  command.on_run([options] { extract(*options); });
}

void add_extract(Command& app) {
  const auto options = std::make_shared<Options>();
  Command command = add(app, "extract", "Write one tensor to a file, or several to a new model",
                        "Its name; left out with --filter", *options);
  command.add_option("OUT", options->out, "The file to write; for several tensors also a folder");
  options->filter.declare(command, "Write all tensors whose name fits this pattern as a model; repeatable");
  options->settings.declare(command);
  command.footer(kExtractExamples);
  command.on_run([options] {
    if (!options->filter.empty()) return extract_all(*options);
    if (options->settings.dry_run || options->settings.no_replace) {
      throw Failure{kUsage, "--dry-run and --no-replace are for --filter"};
    }
    if (options->out.empty()) throw Failure{kUsage, "OUT is missing: cat writes to standard output"};
    options->npy = options->npy || ends_with(options->out, ".npy");
    extract(*options);
  });
}

}  // namespace cli
