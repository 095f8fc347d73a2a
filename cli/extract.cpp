// `safetensors cat FILE TENSOR` and `safetensors extract FILE TENSOR OUT`: one tensor, or a slice of it, as bytes.
//
// In blocks, so that a tensor larger than the memory goes through: a slice is halved along its first dimension until
// the parts are small, which keeps them in the order of the result.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "commands.hpp"
#include "failure.hpp"
#include "npy.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "slice_text.hpp"
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
};

void check(st_status status, const st_error& error) {
  if (status != ST_OK) throw safetensors::Error(status, error.message, error.offset, error.os_error);
}

struct Part {
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
};

Part part_of(const safetensors::Tensor& tensor, const Slice& slice) {
  st_error error = ST_INIT(st_error);
  Part part;
  part.shape.resize(tensor.rank());
  const st_status status = st_tensor_slice(tensor.c_handle(), slice.begin.data(), slice.end.data(), slice.step.data(),
                                           part.shape.data(), &part.bytes, nullptr, &error);
  if (status == ST_ERR_MISALIGNED) throw Failure{kUsage, error.message};  // the slice is at fault and not the file
  check(status, error);
  return part;
}

// Block after block into the same memory, through plans: that is what reads fast from a disk.
class Copier {
 public:
  Copier(const safetensors::SafeOpen& file, const safetensors::Tensor& tensor, OutputFile& out, std::uint64_t total)
      : file_(file), tensor_(tensor), out_(out), total_(total), progress_(shown(tensor.name, 40)) {}
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  ~Copier() { st_buffer_free(memory_); }

  void copy(const Slice& slice) {
    const Part part = part_of(tensor_, slice);
    if (part.bytes == 0) return;
    const std::optional<std::size_t> d = part.bytes > kBlockBytes ? first_of_many(part.shape) : std::nullopt;
    if (!d) return copy_block(slice, part.bytes);
    const std::int64_t middle = first_of(slice, *d) + slice.step[*d] * static_cast<std::int64_t>(half_of(part, *d));
    Slice front = slice;
    front.end[*d] = middle;
    Slice back = slice;
    back.begin[*d] = middle;
    if (!in_whole_bytes(front)) return copy_block(slice, part.bytes);
    copy(front);
    copy(back);
  }

 private:
  // Only what has nothing but ones before it can be cut without leaving the order of the result.
  static std::optional<std::size_t> first_of_many(const std::vector<std::uint64_t>& shape) {
    const auto found = std::find_if(shape.begin(), shape.end(), [](std::uint64_t n) { return n > 1; });
    return found == shape.end() ? std::nullopt : std::optional<std::size_t>(found - shape.begin());
  }

  // Where rows may end inside a byte, eight of them never do.
  static std::uint64_t half_of(const Part& part, std::size_t d) {
    constexpr std::uint64_t kWhole = 8;
    const std::uint64_t half = part.shape[d] / 2;
    return half >= kWhole ? half / kWhole * kWhole : half;
  }

  bool in_whole_bytes(const Slice& slice) const {
    return st_tensor_slice(tensor_.c_handle(), slice.begin.data(), slice.end.data(), slice.step.data(), nullptr,
                           nullptr, nullptr, nullptr) != ST_ERR_MISALIGNED;
  }

  // The position that a slice begins at, counted from the front.
  std::int64_t first_of(const Slice& slice, std::size_t d) const {
    const auto length = static_cast<std::int64_t>(tensor_.shape[d]);
    const std::int64_t begin = slice.begin[d];
    if (begin < 0) return std::max<std::int64_t>(begin + length, 0);
    return slice.step[d] < 0 ? std::min(begin, length - 1) : begin;
  }

  void copy_block(const Slice& slice, std::uint64_t bytes) {
    st_error error = ST_INIT(st_error);
    if (bytes > room_) {
      st_buffer_free(std::exchange(memory_, nullptr));
      check(st_buffer_new(bytes, 0, 0, &memory_, &error), error);
      room_ = bytes;
    }
    st_plan* made = nullptr;
    check(st_plan_new(file_.c_handle(), &made, &error), error);
    const std::unique_ptr<st_plan, void (*)(st_plan*)> plan(made, st_plan_free);
    check(st_plan_add(plan.get(), tensor_.c_handle(), slice.begin.data(), slice.end.data(), slice.step.data(), memory_,
                      static_cast<std::size_t>(bytes), &error),
          error);
    check(st_plan_run(plan.get(), nullptr, &error), error);
    out_.write(memory_, static_cast<std::size_t>(bytes));
    done_ += bytes;
    progress_.show(done_, total_);
  }

  const safetensors::SafeOpen& file_;
  const safetensors::Tensor& tensor_;
  OutputFile& out_;
  const std::uint64_t total_;
  std::uint64_t done_ = 0;
  void* memory_ = nullptr;
  std::uint64_t room_ = 0;
  Progress progress_;
};

std::vector<std::uint64_t> kept(const std::vector<std::uint64_t>& shape, const Slice& slice) {
  std::vector<std::uint64_t> kept;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!slice.dropped[d]) kept.push_back(shape[d]);
  }
  return kept;
}

void extract(const Options& options) {
  try {
    const safetensors::SafeOpen file(options.path);
    const safetensors::Tensor tensor = file.get_tensor(options.tensor);
    const Slice slice = parse_slice(options.slice, tensor.shape);
    const Part part = part_of(tensor, slice);
    const std::string header = options.npy ? npy_header(tensor, kept(part.shape, slice)) : "";
    const Inputs inputs(options.path, file);
    OutputFile out(options.out, inputs);
    out.write(header.data(), header.size());
    Copier(file, tensor, out, part.bytes).copy(slice);
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
    "  safetensors extract model.safetensors wte.weight columns.npy --slice ':, 256:512'";

CLI::App* add(CLI::App& app, const char* name, const char* what, const std::shared_ptr<Options>& options) {
  CLI::App* const command = app.add_subcommand(name, what);
  command->add_option("FILE", options->path, "A .safetensors file, an index of shards, or their folder")->required();
  command->add_option("TENSOR", options->tensor, "Its name")->required();
  command->add_option("--slice", options->slice, "A part, as in Python: '1:3, :, -1, ::2'")->option_text("SLICE");
  command->add_flag("--npy", options->npy, "numpy's format instead of the bytes alone");
  return command;
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

void add_cat(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = add(app, "cat", "Write one tensor's bytes to standard output", options);
  command->footer(kCatExamples);
  command->callback([options] { extract(*options); });
}

void add_extract(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = add(app, "extract", "Write one tensor to a file: raw, or .npy by its name", options);
  command->add_option("OUT", options->out, "The file to write")->required();
  command->footer(kExtractExamples);
  command->callback([options] {
    if (options->out.empty()) throw Failure{kUsage, "OUT is empty: cat writes to standard output"};
    options->npy = options->npy || ends_with(options->out, ".npy");
    extract(*options);
  });
}

}  // namespace cli
