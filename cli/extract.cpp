// `safetensors cat FILE TENSOR` and `safetensors extract FILE TENSOR OUT`: writes a tensor or a slice as bytes.
//
// A tensor may be larger than memory. So a slice is halved along its first dimension until the parts are small. This
// preserves the order of the bytes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>

#include "app.hpp"
#include "arguments.hpp"
#include "failure.hpp"
#include "name_filter.hpp"
#include "one_tensor.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "remote.hpp"
#include "text.hpp"
#include "write_model.hpp"

namespace cli {
namespace {

constexpr std::uint64_t kPartBytes = std::uint64_t{64} << 20;

struct ExtractOptions {
  std::string path;
  std::string tensor;
  std::string slice;
  std::string out;
  bool npy = false;
  NameFilter filter;       // for several tensors
  WriteSettings settings;  // for several tensors
};

using Ranges = std::vector<safetensors::Range>;

// ---- slices as text: "1:3, :, -1, ::2, ..."

struct SliceText {
  std::vector<safetensors::Range> ranges;  // one per dimension
  std::vector<bool> dropped;               // true for a plain index, which removes its dimension
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(at); end != text.npos; end = text.find(at)) {
    parts.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  parts.push_back(trimmed(text));
  return parts;
}

[[noreturn]] void fail_in_slice(std::string_view part, std::string_view what) {
  throw Failure{kUsage, formatted("slice '{}': {}", printable(part), what)};
}

std::int64_t integer(std::string_view text, std::string_view part) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail_in_slice(part, "expected N, BEGIN:END or BEGIN:END:STEP");
  return value;
}

void add_index(SliceText& slice, std::string_view part, std::uint64_t length) {
  std::int64_t at = integer(part, part);
  const bool outside = at < 0 ? 0 - static_cast<std::uint64_t>(at) > length : static_cast<std::uint64_t>(at) >= length;
  if (outside)
    fail_in_slice(part, formatted("out of range for dimension {} of length {}", slice.ranges.size(), length));
  if (at < 0) at += static_cast<std::int64_t>(length);
  slice.ranges.push_back({at, at + 1});
  slice.dropped.push_back(true);
}

void add_range(SliceText& slice, std::string_view part) {
  const auto fields = split(part, ':');
  if (fields.size() > 3) fail_in_slice(part, "too many colons");
  safetensors::Range range;
  if (!fields[0].empty()) range.begin = integer(fields[0], part);
  if (!fields[1].empty()) range.end = integer(fields[1], part);
  if (fields.size() == 3 && !fields[2].empty()) range.step = integer(fields[2], part);
  if (range.step == 0) fail_in_slice(part, "the step is 0");
  slice.ranges.push_back(range);
  slice.dropped.push_back(false);
}

// Parses a slice as Python does, with or without brackets. Throws a Failure.
SliceText parse_slice(std::string_view text, safetensors::View<std::uint64_t> shape) {
  text = trimmed(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = trimmed(text.substr(1, text.size() - 2));
  auto parts = split(text, ',');
  if (text.empty()) parts.clear();
  std::size_t ellipses = 0;
  for (const std::string_view part : parts) ellipses += part == "..." ? 1 : 0;
  if (ellipses > 1) fail_in_slice(text, "more than one '...'");
  if (parts.size() - ellipses > shape.size()) {
    fail_in_slice(text, formatted("{} indexes for {} dimensions", parts.size() - ellipses, shape.size()));
  }
  if (ellipses == 0) parts.push_back("...");  // the remaining dimensions are whole
  const std::size_t rest = shape.size() - (parts.size() - 1);
  SliceText slice;
  for (const std::string_view part : parts) {
    if (part == "...") {
      for (std::size_t i = 0; i < rest; ++i) add_range(slice, ":");
    } else if (part.find(':') == part.npos) {
      add_index(slice, part, shape[slice.ranges.size()]);
    } else {
      add_range(slice, part);
    }
  }
  return slice;
}

// ---- the header of a .npy file, numpy's format for one array

constexpr std::size_t kPreamble = 10;   // magic, version and length
constexpr std::size_t kAlignment = 64;  // alignment of the data so that numpy can map it

std::string npy_header(const safetensors::Tensor& tensor, const std::vector<std::uint64_t>& shape) {
  std::string dict = formatted("{{'descr': '{}', 'fortran_order': False, 'shape': (", npy_type(tensor));
  for (std::size_t d = 0; d < shape.size(); ++d) dict += formatted("{}{}", d == 0 ? "" : ", ", shape[d]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  const std::size_t unpadded = kPreamble + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  if (dict.size() > UINT16_MAX) throw Failure{kUsage, formatted("too many dimensions for .npy: {}", shape.size())};
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

// ---- the bytes

// Reads blocks one after another into the same memory. Uses plans, which are fast on disks.
class Copier {
 public:
  Copier(const safetensors::SafeOpen& file, const safetensors::Tensor& tensor, OutputFile& out, std::uint64_t total)
      : file_(file), tensor_(tensor), out_(out), total_(total), progress_(shown(tensor.name, 40)) {}

  void copy(const Ranges& ranges, const safetensors::Slice& part) {
    if (part.nbytes() == 0) return;
    const std::optional<std::size_t> d = part.nbytes() > kPartBytes ? first_of_many(part.shape) : std::nullopt;
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
  // Returns the dimension to halve: the first one that is not 1. Halving a later one would reorder the bytes.
  static std::optional<std::size_t> first_of_many(const std::vector<std::uint64_t>& shape) {
    const auto found = std::find_if(shape.begin(), shape.end(), [](std::uint64_t n) { return n > 1; });
    return found == shape.end() ? std::nullopt : std::optional<std::size_t>(found - shape.begin());
  }

  // Rounds to multiples of eight rows: a row of sub-byte elements may end inside a byte, but eight rows never do.
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

  // Returns the first index of a range, counted from the front.
  static std::int64_t first_of(const safetensors::Range& range, std::uint64_t dimension) {
    const auto length = static_cast<std::int64_t>(dimension);
    const std::int64_t begin = range.begin.value_or(range.step < 0 ? length - 1 : 0);
    if (begin < 0) return std::max<std::int64_t>(begin + length, 0);
    return range.step < 0 ? std::min(begin, length - 1) : begin;
  }

  void copy_block(const safetensors::Slice& part) {
    const auto bytes = static_cast<std::size_t>(part.nbytes());
    if (bytes > memory_.size()) {
      memory_ = {};  // free the old block first
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
    if (error.status() == ST_ERR_MISALIGNED) throw Failure{kUsage, error.what()};  // the file is valid
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

void extract(const ExtractOptions& options) {
  try {
    const safetensors::SafeOpen file = open_model(options.path);
    const Inputs inputs(options.path, file);
    const safetensors::Tensor tensor = tensor_named(file, options.path, options.tensor);
    const SliceText slice = parse_slice(options.slice, tensor.shape);
    const safetensors::Slice part = part_of(tensor, slice.ranges);
    const std::string header = options.npy ? npy_header(tensor, kept(part.shape, slice)) : "";
    const std::string path = options.out.empty() ? "/dev/stdout" : options.out;
    check_output(path, inputs, /*may_be_input=*/false, options.settings.replace);
    OutputFile out(path, options.settings.replace);
    out.write(header.data(), header.size());
    Copier(file, tensor, out, part.nbytes()).copy(slice.ranges, part);
    file.check_unchanged(tensor.shard());
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

Command add(Command& app, const char* name, const char* what, const char* tensor, ExtractOptions& options) {
  Command command = app.add_command(name, what);
  command.add_input("FILE", options.path, "A file, an index of shards, or a model folder").required();
  command.add_option("TENSOR", options.tensor, tensor).required();
  command.add_option("--slice", options.slice, "Write only a slice, in Python syntax: '1:3, :, -1, ::2'")
      .shown_as("SLICE");
  command.add_flag("--npy", options.npy, "Write numpy's .npy format instead of raw bytes");
  return command;
}

// Without TENSOR, the parser has stored OUT in options.tensor.
void extract_all(ExtractOptions& options) {
  if (!options.out.empty()) throw Failure{kUsage, "give either TENSOR, or --filter or --exclude, but not both"};
  if (options.npy || !options.slice.empty())
    throw Failure{kUsage, "--npy and --slice need a TENSOR, not --filter or --exclude"};
  options.settings.out = options.tensor;
  if (is_url(options.settings.out))
    throw Failure{kUsage, shown_url(options.settings.out) + " is a URL, which cannot be written"};
  options.filter.check();
  try {
    const Input input(options.path);
    options.filter.require_one(options.path, {input.file});
    std::vector<NewTensor> tensors = all_tensors(input.file);
    std::erase_if(tensors, [&](const NewTensor& tensor) { return !options.filter.matches(tensor.name); });
    write_like(std::move(tensors), input, options.settings);
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

}  // namespace

void add_cat(Command& app) {
  const auto options = std::make_shared<ExtractOptions>();
  Command command = add(app, "cat", "Write the bytes of one tensor to standard output", "The tensor's name", *options);
  command.footer(kCatExamples);
  command.on_run([options] { extract(*options); });
}

void add_extract(Command& app) {
  const auto options = std::make_shared<ExtractOptions>();
  Command command = add(app, "extract", "Write one tensor to a file, or several to a new model",
                        "The tensor's name; omitted with --filter or --exclude", *options);
  command.add_output("OUT", options->out, "The file to write; without TENSOR, a file or a folder");
  options->filter.declare(command, "Write a model of all tensors whose name matches this pattern; repeatable");
  options->settings.declare(command);
  command.footer(kExtractExamples);
  command.on_run([options] {
    if (!options->filter.empty()) return extract_all(*options);
    if (options->settings.dry_run) throw Failure{kUsage, "--dry-run needs --filter or --exclude"};
    if (options->out.empty()) throw Failure{kUsage, "OUT is missing; use cat to write to standard output"};
    options->npy = options->npy || options->out.ends_with(".npy");
    extract(*options);
  });
}

}  // namespace cli
