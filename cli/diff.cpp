// `safetensors diff A B`: compares metadata, names, dtypes and shapes of two models, and then their bytes or values.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>

#include <fmt/ranges.h>

#include "app.hpp"
#include "arguments.hpp"
#include "blocks.hpp"
#include "failure.hpp"
#include "json.hpp"
#include "name_filter.hpp"
#include "new_model.hpp"
#include "output.hpp"
#include "remote.hpp"
#include "text.hpp"
#include "values.hpp"

namespace cli {
namespace {

constexpr const char* kDiffNotes =
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
    "  safetensors diff a.safetensors b.safetensors --rtol 1e-5 --atol 1e-8\n"
    "  safetensors diff a.safetensors b.safetensors --headers --filter '*.weight'";

struct DiffOptions {
  std::string a;
  std::string b;
  NameFilter filter;
  std::string relative;  // as given to --rtol
  std::string absolute;
  bool headers = false;
  bool values = false;
  bool json = false;
};

// Values a and b are close if |a - b| <= absolute + relative * |b|, as in numpy and torch.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
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
  std::uint64_t bytes = 0;  // different bytes; not counted if the dtypes differ
  std::uint64_t first = 0;  // offset of the first one in the tensor
  bool has_values = false;  // the tensors are floats, and the remaining fields are valid
  std::uint64_t values = 0;
  std::uint64_t nans = 0;  // NaN in only one of the tensors
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

bool is_close(double a, double b, const Tolerance& tolerance) {
  return a == b || (std::isfinite(a) && std::isfinite(b) &&
                    std::abs(a - b) <= tolerance.absolute + tolerance.relative * std::abs(b));
}

// -0 equals 0, and any NaN equals any other.
void compare_numbers(double a, double b, const Tolerance& tolerance, Difference& difference) {
  if (is_close(a, b, tolerance)) return;
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

// A C64 number is two F32 values.
Dtype value_dtype(Dtype dtype) { return dtype == Dtype::C64 ? Dtype::F32 : dtype; }

std::uint64_t count_values(const Tensor& tensor) { return tensor.elements() * (tensor.dtype == Dtype::C64 ? 2 : 1); }

void compare_values(const TensorPair& pair, Bytes a, Bytes b, const Tolerance& tolerance, Difference& difference) {
  constexpr std::size_t kChunk = 4096;
  std::array<double, kChunk> first;
  std::array<double, kChunk> second;
  const Dtype dtype_a = value_dtype(pair.a.dtype);
  const Dtype dtype_b = value_dtype(pair.b.dtype);
  const std::size_t size_a = safetensors::bits(dtype_a) / 8;
  const std::size_t size_b = safetensors::bits(dtype_b) / 8;
  for (std::size_t i = 0; i < a.size() / size_a; i += kChunk) {
    const std::size_t n = std::min(kChunk, a.size() / size_a - i);
    safetensors::convert(dtype_a, a.data() + i * size_a, Dtype::F64, first.data(), n);
    safetensors::convert(dtype_b, b.data() + i * size_b, Dtype::F64, second.data(), n);
    for (std::size_t k = 0; k < n; ++k) compare_numbers(first[k], second[k], tolerance, difference);
  }
}

// Calls `report` for each pair that differs, in order.
void for_each_difference(const std::vector<TensorPair>& pairs, const Tolerance& tolerance,
                         const std::function<void(std::size_t, const Difference&)>& report) {
  std::vector<Source> sources;
  std::vector<Source> others;
  for (const TensorPair& pair : pairs) {
    sources.push_back({pair.file_a, pair.a});
    others.push_back({pair.file_b, pair.b});
  }
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
    difference.has_values = is_float(pair.a.dtype);
    const bool same = one_type && std::memcmp(part.bytes.data(), b.data(), size) == 0;
    if (!same && one_type) compare_bytes(part.bytes, b, part.at, difference);
    if (!same && difference.has_values) compare_values(pair, part.bytes, b, tolerance, difference);
    if (part.at + part.bytes.size() == pair.a.nbytes() && difference.bytes + difference.values != 0) {
      report(part.source, difference);
    }
  });
  check_unchanged(others);
}

// ---- two models

std::string type_of(const Tensor& tensor) { return shown(tensor.dtype_name(), 20) + " " + shape_text(tensor.shape); }

bool same_shape(const Tensor& a, const Tensor& b) {
  return std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end());
}

// Prints differences as lines or as JSON. In both forms, null or a missing value means: not in this model.
class Printer {
 public:
  Printer(const DiffOptions& options, Output& out) : options_(options), out_(out) {}

  bool has_printed() const { return has_printed_; }

  void print_metadata(std::string_view key, const std::string* a, const std::string* b) {
    if (options_.json) {
      Json json{{"kind", "metadata"}, {"name", key}};
      if (a != nullptr) json["a"] = *a;
      if (b != nullptr) json["b"] = *b;
      return print(json);
    }
    const auto text = [](const std::string* value) { return value == nullptr ? std::string() : shown(*value, 100); };
    print("{} metadata {}: {}\n", sign_of(a, b), shown(key, 100),
          a == nullptr   ? text(b)
          : b == nullptr ? text(a)
                         : text(a) + " -> " + text(b));
  }

  void print_tensor(const Tensor* a, const Tensor* b) {
    const std::string_view name = a == nullptr ? b->name : a->name;
    if (options_.json) {
      Json json{{"kind", "tensor"}, {"name", name}};
      if (a != nullptr) json["a"] = json_of(*a);
      if (b != nullptr) json["b"] = json_of(*b);
      return print(json);
    }
    print("{} {}  {}\n", sign_of(a, b), shown(name, 200),
          a == nullptr   ? type_of(*b)
          : b == nullptr ? type_of(*a)
                         : type_of(*a) + " -> " + type_of(*b));
  }

  void print_bytes(const Tensor& tensor, const Difference& difference) {
    if (options_.json) {
      return print({{"kind", "bytes"},
                    {"name", tensor.name},
                    {"different", difference.bytes},
                    {"bytes", tensor.nbytes()},
                    {"first", difference.first}});
    }
    print("~ {}  {} of {} bytes differ, the first at {}\n", shown(tensor.name, 200), grouped(difference.bytes),
          grouped(tensor.nbytes()), difference.first);
  }

  void print_values(const Tensor& tensor, const Difference& difference) {
    if (options_.json) {
      return print({{"kind", "values"},
                    {"name", tensor.name},
                    {"different", difference.values},
                    {"values", count_values(tensor)},
                    {"nan", difference.nans},
                    {"absolute", difference.absolute},  // infinity becomes null
                    {"relative", difference.relative}});
    }
    const std::string nans =
        difference.nans == 0 ? "" : formatted(", {} of them NaN in only one tensor", grouped(difference.nans));
    print("~ {}  {} of {} values differ, by at most {:.6g} (relative {:.3g}){}\n", shown(tensor.name, 200),
          grouped(difference.values), grouped(count_values(tensor)), difference.absolute, difference.relative, nans);
  }

 private:
  static char sign_of(const void* a, const void* b) { return a == nullptr ? '+' : b == nullptr ? '-' : '~'; }

  static Json json_of(const Tensor& tensor) {
    return {{"dtype", tensor.dtype_name()},
            {"shape", std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end())}};
  }

  void print(const Json& json) {
    has_printed_ = true;
    out_.write(json_text(json) + "\n");
  }

  template <class... Args>
  void print(fmt::format_string<Args...> text, const Args&... args) {
    has_printed_ = true;
    out_.print(text, args...);
  }

  const DiffOptions& options_;
  Output& out_;
  bool has_printed_ = false;
};

class Diff {
 public:
  Diff(const DiffOptions& options, const Tolerance& tolerance, Output& out)
      : options_(options), tolerance_(tolerance), printer_(options, out) {}

  bool differs() const { return printer_.has_printed(); }

  void compare(const SafeOpen& a, const SafeOpen& b) {
    compare_metadata(a, b);
    std::vector<TensorPair> pairs;
    for (const Tensor& tensor : a) {
      if (!options_.filter.matches(tensor.name)) continue;
      const std::optional<Tensor> other = b.find(tensor.name);
      if (compare_headers(tensor, other ? &*other : nullptr)) pairs.push_back({a, b, tensor, *other});
    }
    for (const Tensor& tensor : b) {
      if (options_.filter.matches(tensor.name) && !a.contains(tensor.name)) printer_.print_tensor(nullptr, &tensor);
    }
    if (options_.headers) return;
    for_each_difference(pairs, tolerance_,
                        [&](std::size_t i, const Difference& difference) { print(pairs[i].a, difference); });
  }

 private:
  using Values = std::map<std::string, std::set<std::string>>;

  // Ignores keys that describe the index itself. If shards have different values for a key, compares all of them.
  static Values metadata_of(const SafeOpen& file) {
    const safetensors::Metadata own = file.metadata();
    const bool is_one_file = file.count_shards() == 1 && open_shard(file, 0).metadata() == own;
    const WholeMetadata all = is_one_file ? WholeMetadata{own, {}, true} : metadata_of_all(file);
    Values values;
    for (const auto& [key, value] : all.first) values[key].insert(value);
    for (const auto& [key, value] : all.others) values[key].insert(value);
    return values;
  }

  static std::optional<std::string> text_of_values(const Values& all, const std::string& key) {
    const auto found = all.find(key);
    if (found == all.end()) return std::nullopt;
    return formatted("{}", fmt::join(found->second, " | "));
  }

  void compare_metadata(const SafeOpen& a, const SafeOpen& b) {
    const Values first = metadata_of(a);
    const Values second = metadata_of(b);
    const auto print = [&](const std::string& key) {
      const auto a_text = text_of_values(first, key);
      const auto b_text = text_of_values(second, key);
      printer_.print_metadata(key, a_text ? &*a_text : nullptr, b_text ? &*b_text : nullptr);
    };
    for (const auto& [key, values] : first) {
      const auto other = second.find(key);
      if (other == second.end() || other->second != values) print(key);
    }
    for (const auto& [key, values] : second) {
      if (!first.contains(key)) print(key);
    }
  }

  // Prints differences in the headers. Returns whether the data can be compared. b is null if there is no such tensor.
  bool compare_headers(const Tensor& a, const Tensor* b) {
    const bool same = b != nullptr && same_shape(a, *b) && a.dtype == b->dtype;
    if (!same) printer_.print_tensor(&a, b);
    return same || (b != nullptr && options_.values && same_shape(a, *b) && is_convertible(a.dtype) &&
                    is_convertible(b->dtype));
  }

  void print(const Tensor& tensor, const Difference& difference) {
    const bool by_value = options_.values && difference.has_values;
    if (by_value && difference.values != 0) printer_.print_values(tensor, difference);
    if (!by_value && difference.bytes != 0) printer_.print_bytes(tensor, difference);
  }

  const DiffOptions& options_;
  const Tolerance tolerance_;
  Printer printer_;
};

SafeOpen opened(const std::string& path) {
  st_open_options reading = ST_INIT(st_open_options);
  reading.io = ST_IO_READ;  // a truncated file raises an error, not a signal
  try {
    return open_model(path, reading);
  } catch (const safetensors::Error& error) {
    throw failure_in(path, error);
  }
}

double tolerance_of(const std::string& option, const std::string& text) {
  if (text.empty()) return 0;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0 && std::isfinite(value)) return value;
  throw Failure{kUsage, formatted("{} {}: not a number such as 1e-5", option, shown(text, 40))};
}

void diff(const DiffOptions& options) {
  options.filter.check();
  const Tolerance tolerance{tolerance_of("--atol", options.absolute), tolerance_of("--rtol", options.relative)};
  const SafeOpen a = opened(options.a);
  const SafeOpen b = opened(options.b);
  options.filter.require_one(options.a, {a, b});
  Output out;
  Diff differences(options, tolerance, out);
  differences.compare(a, b);
  out.flush();
  if (differences.differs()) throw Failure{kDiffers, ""};
}

}  // namespace

void add_diff(Command& app) {
  const auto options = std::make_shared<DiffOptions>();
  Command command = app.add_command("diff", "Compare two models");
  command.add_input("A", options->a, "A file, an index of shards, or a model folder").required();
  command.add_input("B", options->b, "The model to compare with").required();
  options->filter.declare(command, "Compare only tensors whose name matches this pattern; repeatable");
  const Option headers = command.add_flag("--headers", options->headers, "Do not compare tensor data");
  command.add_flag("--values", options->values, "Compare floats as numbers, even across dtypes").excludes(headers);
  Option relative =
      command.add_option("--rtol", options->relative, "Like --values; a differs from b if |a-b| > ATOL + RTOL * |b|");
  relative.shown_as("RTOL").not_empty().excludes(headers);
  Option absolute = command.add_option("--atol", options->absolute, "See --rtol; each is 0 by default");
  absolute.shown_as("ATOL").not_empty().excludes(headers);
  command.add_flag("--json", options->json, "Print one JSON object for each difference");
  command.footer(kDiffNotes);
  command.on_run([options, relative, absolute] {
    options->values = options->values || relative.is_given() || absolute.is_given();
    diff(*options);
  });
}

}  // namespace cli
