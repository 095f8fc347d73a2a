// `safetensors diff A B`: in what two models differ: metadata, names, types, shapes, and then bytes or values.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "difference.hpp"
#include "dtypes.hpp"
#include "failure.hpp"
#include "formatted.hpp"
#include "name_filter.hpp"
#include "new_model.hpp"
#include "output.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kNotes =
    "Each difference is a line: - is only in A, + only in B, ~ in both and not the same. It does not matter whether\n"
    "either is one file or shards, nor in which format or order.\n"
    "\n"
    "Exit codes:\n"
    "  0  no difference\n"
    "  5  they differ\n"
    "\n"
    "Examples:\n"
    "  safetensors diff model.safetensors shards/\n"
    "  safetensors diff model.safetensors half.safetensors --values\n"
    "  safetensors diff a.safetensors b.safetensors --headers --filter '*.weight'";

struct DiffOptions {
  std::string a;
  std::string b;
  NameFilter filter;
  bool headers = false;
  bool values = false;
};

using safetensors::SafeOpen;
using safetensors::Tensor;

std::string type_of(const Tensor& tensor) { return shown(tensor.dtype_name(), 20) + " " + shape_text(tensor.shape); }

bool same_shape(const Tensor& a, const Tensor& b) {
  return std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end());
}

class Diff {
 public:
  Diff(const DiffOptions& options, Output& out) : options_(options), out_(out) {}

  bool differs() const { return differs_; }

  void compare(const SafeOpen& a, const SafeOpen& b) {
    compare_metadata(a, b);
    std::vector<TensorPair> pairs;
    for (const Tensor& tensor : a) {
      if (!options_.filter.fits(tensor.name)) continue;
      if (const std::optional<Tensor> other = b.find(tensor.name)) {
        if (compare_headers(tensor, *other)) pairs.push_back({a, b, tensor, *other});
      } else {
        print("- {}  {}\n", shown(tensor.name, 200), type_of(tensor));
      }
    }
    for (const Tensor& tensor : b) {
      if (options_.filter.fits(tensor.name) && !a.contains(tensor.name)) {
        print("+ {}  {}\n", shown(tensor.name, 200), type_of(tensor));
      }
    }
    if (options_.headers) return;
    for_each_difference(pairs, [&](std::size_t i, const Difference& difference) { print(pairs[i].a, difference); });
  }

 private:
  template <class... Args>
  void print(fmt::format_string<Args...> text, const Args&... args) {
    differs_ = true;
    out_.print(text, args...);
  }

  // What an index says of itself is no metadata of the model. Where shards have several values, all of them count.
  static safetensors::Metadata metadata_of(const SafeOpen& file) {
    if (file.count_shards() == 1) return file.metadata();
    WholeMetadata all = metadata_of_all(file);
    for (const auto& [key, value] : all.others) all.first[key] += " | " + value;
    return std::move(all.first);
  }

  void compare_metadata(const SafeOpen& a, const SafeOpen& b) {
    const safetensors::Metadata first = metadata_of(a);
    const safetensors::Metadata second = metadata_of(b);
    for (const auto& [key, value] : first) {
      const auto other = second.find(key);
      if (other == second.end()) {
        print("- metadata {}: {}\n", shown(key, 100), shown(value, 100));
      } else if (other->second != value) {
        print("~ metadata {}: {} -> {}\n", shown(key, 100), shown(value, 100), shown(other->second, 100));
      }
    }
    for (const auto& [key, value] : second) {
      if (!first.contains(key)) print("+ metadata {}: {}\n", shown(key, 100), shown(value, 100));
    }
  }

  // Returns whether the data can be compared.
  bool compare_headers(const Tensor& a, const Tensor& b) {
    const bool same = same_shape(a, b) && a.dtype == b.dtype;
    const bool both_floats = is_convertible(a.dtype) && is_convertible(b.dtype);
    if (!same) print("~ {}  {} -> {}\n", shown(a.name, 200), type_of(a), type_of(b));
    return same || (options_.values && same_shape(a, b) && both_floats);
  }

  void print(const Tensor& tensor, const Difference& difference) {
    const std::string name = shown(tensor.name, 200);
    if (!options_.values || !difference.has_values) {
      if (difference.bytes == 0) return;
      print("~ {}  {} of {} bytes differ, the first at {}\n", name, grouped(difference.bytes), grouped(tensor.nbytes()),
            difference.first);
      return;
    }
    if (difference.values == 0) return;
    const std::string nans = difference.nans == 0 ? "" : formatted(", {} NaN in one of them", grouped(difference.nans));
    print("~ {}  {} of {} values differ, by {:.6g} at most, relative {:.3g}{}\n", name, grouped(difference.values),
          grouped(tensor.elements()), difference.absolute, difference.relative, nans);
  }

  const DiffOptions& options_;
  Output& out_;
  bool differs_ = false;
};

SafeOpen opened(const std::string& path) {
  st_open_options reading = ST_INIT(st_open_options);
  reading.io = ST_IO_READ;  // so that a truncated file is an error and not a signal
  try {
    return SafeOpen(path, reading);
  } catch (const safetensors::Error& error) {
    throw failure_in(path, error);
  }
}

void diff(const DiffOptions& options) {
  options.filter.check();
  const SafeOpen a = opened(options.a);
  const SafeOpen b = opened(options.b);
  options.filter.require_one(options.a, {a, b});
  Output out;
  Diff differences(options, out);
  differences.compare(a, b);
  out.flush();
  if (differences.differs()) throw Failure{kDiffers, ""};
}

}  // namespace

void add_diff(Command& app) {
  const auto options = std::make_shared<DiffOptions>();
  Command command = app.add_command("diff", "Tell in what two models differ");
  command.add_option("A", options->a, "A file, an index of shards, or their folder").required();
  command.add_option("B", options->b, "Another one, of either format").required();
  options->filter.declare(command, "Only tensors whose name fits this pattern; repeatable");
  const Option headers = command.add_flag("--headers", options->headers, "Do not compare the data");
  command.add_flag("--values", options->values, "Compare floats as numbers, also of different types").excludes(headers);
  command.footer(kNotes);
  command.on_run([options] { diff(*options); });
}

}  // namespace cli
