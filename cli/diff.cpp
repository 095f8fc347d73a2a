// `safetensors diff A B`: compares metadata, names, dtypes and shapes of two models, and then their bytes or values.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "app.hpp"
#include "arguments.hpp"
#include "blocks.hpp"
#include "failure.hpp"
#include "name_filter.hpp"
#include "new_model.hpp"
#include "output.hpp"
#include "text.hpp"
#include "values.hpp"

namespace cli {
namespace {

constexpr const char* kNotes =
    "Prints one line per difference: - only in A, + only in B, ~ in both but different. Sharding, format\n"
    "and order do not matter.\n"
    "\n"
    "Exit codes:\n"
    "  0  no difference\n"
    "  5  a difference\n"
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

using safetensors::Dtype;
using safetensors::SafeOpen;
using safetensors::Tensor;
using Bytes = std::span<const std::byte>;

// ---- the data of two tensors

// Two tensors of the same shape. Their dtypes are equal, or both can be converted.
struct TensorPair {
  safetensors::SafeOpen file_a;
  safetensors::SafeOpen file_b;
  safetensors::Tensor a;
  safetensors::Tensor b;
};

struct Difference {
  std::uint64_t bytes = 0;  // different bytes; not counted for two dtypes
  std::uint64_t first = 0;  // the first of them, in the tensor
  bool has_values = false;  // the remaining fields are valid: the tensors are floats
  std::uint64_t values = 0;
  std::uint64_t nans = 0;  // NaN in one tensor, a number in the other
  double absolute = 0;     // largest difference
  double relative = 0;     // largest difference relative to the larger number
};

void compare_bytes(Bytes a, Bytes b, std::uint64_t at, Difference& difference) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (difference.bytes == 0) difference.first = at + i;
    ++difference.bytes;
  }
}

// -0 equals 0, and any NaN equals any other.
void compare_numbers(double a, double b, Difference& difference) {
  if (a == b) return;
  const bool one_is_nan = std::isnan(a) != std::isnan(b);
  if (std::isnan(a) && !one_is_nan) return;
  ++difference.values;
  if (one_is_nan) {
    ++difference.nans;
    return;
  }
  const double distance = std::abs(a - b);
  const double larger = std::max(std::abs(a), std::abs(b));
  difference.absolute = std::max(difference.absolute, distance);
  difference.relative = std::max(difference.relative, std::isinf(larger) ? 1.0 : distance / larger);
}

void compare_values(const TensorPair& pair, Bytes a, Bytes b, Difference& difference) {
  constexpr std::size_t kChunk = 4096;
  std::array<double, kChunk> first;
  std::array<double, kChunk> second;
  const std::size_t size_a = safetensors::bits(pair.a.dtype) / 8;
  const std::size_t size_b = safetensors::bits(pair.b.dtype) / 8;
  for (std::size_t i = 0; i < a.size() / size_a; i += kChunk) {
    const std::size_t n = std::min(kChunk, a.size() / size_a - i);
    safetensors::convert(pair.a.dtype, a.data() + i * size_a, Dtype::F64, first.data(), n);
    safetensors::convert(pair.b.dtype, b.data() + i * size_b, Dtype::F64, second.data(), n);
    for (std::size_t k = 0; k < n; ++k) compare_numbers(first[k], second[k], difference);
  }
}

// Calls `report` for each pair that differs, in order.
void for_each_difference(const std::vector<TensorPair>& pairs,
                         const std::function<void(std::size_t, const Difference&)>& report) {
  std::vector<Source> sources;
  sources.reserve(pairs.size());
  for (const TensorPair& pair : pairs) sources.push_back({pair.file_a, pair.a});
  std::vector<std::byte> other;
  Difference difference;
  for_each_part(sources, "comparing", [&](const Part& part) {
    const TensorPair& pair = pairs[part.source];
    const bool one_type = pair.a.dtype == pair.b.dtype;
    const std::uint64_t bits_a = safetensors::bits(pair.a.dtype);
    const std::uint64_t bits_b = safetensors::bits(pair.b.dtype);
    const auto scaled = [&](std::uint64_t bytes) { return one_type ? bytes : bytes * bits_b / bits_a; };
    const auto size = static_cast<std::size_t>(scaled(part.bytes.size()));
    if (other.size() < size) other.resize(size);
    pair.file_b.read_shard(pair.b.shard(), pair.b.offset() + scaled(part.at), other.data(), size);
    const Bytes b = std::span(other).first(size);
    if (part.at == 0) difference = {};
    difference.has_values = is_convertible(pair.a.dtype);
    const bool same = one_type && std::memcmp(part.bytes.data(), b.data(), size) == 0;
    if (!same && one_type) compare_bytes(part.bytes, b, part.at, difference);
    if (!same && difference.has_values) compare_values(pair, part.bytes, b, difference);
    if (part.at + part.bytes.size() == pair.a.nbytes() && difference.bytes + difference.values != 0) {
      report(part.source, difference);
    }
  });
}

// ---- two models

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
      if (!options_.filter.matches(tensor.name)) continue;
      if (const std::optional<Tensor> other = b.find(tensor.name)) {
        if (compare_headers(tensor, *other)) pairs.push_back({a, b, tensor, *other});
      } else {
        print("- {}  {}\n", shown(tensor.name, 200), type_of(tensor));
      }
    }
    for (const Tensor& tensor : b) {
      if (options_.filter.matches(tensor.name) && !a.contains(tensor.name)) {
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

  // Ignores an index's keys about itself. If shards have different values for a key, all of them count.
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

  // Prints a difference, and returns whether the data can be compared.
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
    const std::string nans =
        difference.nans == 0 ? "" : formatted(", {} of them NaN in one tensor", grouped(difference.nans));
    print("~ {}  {} of {} values differ, by {:.6g} at most, relative {:.3g}{}\n", name, grouped(difference.values),
          grouped(tensor.elements()), difference.absolute, difference.relative, nans);
  }

  const DiffOptions& options_;
  Output& out_;
  bool differs_ = false;
};

SafeOpen opened(const std::string& path) {
  st_open_options reading = ST_INIT(st_open_options);
  reading.io = ST_IO_READ;  // a truncated file is an error, and not a signal
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
  Command command = app.add_command("diff", "Compare two models");
  command.add_option("A", options->a, "A file, an index of shards, or a model folder").required();
  command.add_option("B", options->b, "The model to compare with").required();
  options->filter.declare(command, "Compare only tensors whose name matches this pattern; repeatable");
  const Option headers = command.add_flag("--headers", options->headers, "Do not compare tensor data");
  command.add_flag("--values", options->values, "Compare floats as numbers, even across dtypes").excludes(headers);
  command.footer(kNotes);
  command.on_run([options] { diff(*options); });
}

}  // namespace cli
