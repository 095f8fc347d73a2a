// `safetensors stats FILE`: minimum, maximum and mean of each tensor, and how many zeros, NaN and infinities it has.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>

#include "app.hpp"
#include "arguments.hpp"
#include "blocks.hpp"
#include "failure.hpp"
#include "json.hpp"
#include "name_filter.hpp"
#include "output.hpp"
#include "remote.hpp"
#include "text.hpp"
#include "values.hpp"

namespace cli {
namespace {

constexpr const char* kStatsNotes =
    "MIN, MAX and MEAN ignore NaN and infinity. A C64 number counts as two values. Sub-byte types are not scanned.\n"
    "\n"
    "Examples:\n"
    "  safetensors stats model.safetensors\n"
    "  safetensors stats shards/ --filter '*.weight' --json | jq -r 'select(.nan > 0) | .name'";

struct StatsOptions {
  std::string path;
  NameFilter filter;
  bool json = false;
};

std::string digits_of(const Integer& value) {
  return value.negative ? formatted("{}", static_cast<std::int64_t>(value.bits)) : formatted("{}", value.bits);
}

std::string min_text(const Values& values) {
  if (values.finite == 0) return "-";
  return values.integers ? digits_of(values.least) : formatted("{:.6g}", values.min);
}

std::string max_text(const Values& values) {
  if (values.finite == 0) return "-";
  return values.integers ? digits_of(values.largest) : formatted("{:.6g}", values.max);
}

Json json_of(const Integer& value) {
  return value.negative ? Json(static_cast<std::int64_t>(value.bits)) : Json(value.bits);
}

struct StatsRow {
  std::string dtype, shape, min, max, mean, zeros, nans, infinities, name;
};

StatsRow row_of(const safetensors::Tensor& tensor, const Values& values) {
  const std::string dtype = shown(tensor.dtype_name(), 20);
  const std::string name = shown(tensor.name, 200);
  if (!has_values(tensor.dtype)) return {dtype, shape_text(tensor.shape), "-", "-", "-", "-", "-", "-", name};
  return {dtype,
          shape_text(tensor.shape),
          min_text(values),
          max_text(values),
          values.finite == 0 ? "-" : formatted("{:.6g}", values.mean()),
          grouped(values.zeros),
          grouped(values.nans),
          grouped(values.infinities),
          name};
}

void print_table(const std::vector<StatsRow>& rows, Output& out) {
  constexpr std::array<std::string StatsRow::*, 8> kColumns{&StatsRow::dtype, &StatsRow::shape,     &StatsRow::min,
                                                            &StatsRow::max,   &StatsRow::mean,      &StatsRow::zeros,
                                                            &StatsRow::nans,  &StatsRow::infinities};
  std::array<std::size_t, kColumns.size()> widths{};
  for (const StatsRow& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], width_of(row.*kColumns[i]));
  }
  for (const StatsRow& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      i < 2 ? out.print("{:<{}}  ", row.*kColumns[i], widths[i]) : out.print("{:>{}}  ", row.*kColumns[i], widths[i]);
    }
    out.print("{}\n", row.name);
  }
}

// Omits minimum, maximum and mean if there is no finite value, because JSON has neither NaN nor infinity.
Json json_of(const Values& values) {
  Json json{{"count", values.count}};
  if (values.finite != 0) {
    json["min"] = values.integers ? json_of(values.least) : Json(values.min);
    json["max"] = values.integers ? json_of(values.largest) : Json(values.max);
    json["mean"] = values.mean();
  }
  json["zeros"] = values.zeros;
  json["nan"] = values.nans;
  json["infinite"] = values.infinities;
  json["denormal"] = values.denormals;
  return json;
}

void print_json(const safetensors::Tensor& tensor, const Values& values, Output& out) {
  Json json{{"name", tensor.name}, {"dtype", tensor.dtype_name()}};
  json["shape"] = std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end());
  if (has_values(tensor.dtype)) json.update(json_of(values));
  out.write(json_text(json) + "\n");
}

void stats(const StatsOptions& options) {
  options.filter.check();
  try {
    st_open_options reading = ST_INIT(st_open_options);
    reading.io = ST_IO_READ;
    const safetensors::SafeOpen file = open_model(options.path, reading);
    options.filter.require_one(options.path, {file});
    std::vector<safetensors::Tensor> tensors;
    std::vector<Source> sources;
    std::vector<std::size_t> numbers;  // for each source, its index among the tensors
    for (const safetensors::Tensor& tensor : file) {
      if (!options.filter.matches(tensor.name)) continue;
      tensors.push_back(tensor);
      if (!has_values(tensor.dtype)) continue;
      sources.push_back({file, tensor});
      numbers.push_back(tensors.size() - 1);
    }
    std::vector<Values> values(tensors.size());
    for_each_part(sources, "scanning values", [&](const Part& part) {
      add_values(sources[part.source].tensor.dtype, part.bytes, values[numbers[part.source]]);
    });
    Values all;
    for (const Values& each : values) {
      if (each.count != 0) all.add(each);
    }
    Output out;
    if (options.json) {
      for (std::size_t i = 0; i < tensors.size(); ++i) print_json(tensors[i], values[i], out);
    } else {
      std::vector<StatsRow> rows{{"DTYPE", "SHAPE", "MIN", "MAX", "MEAN", "ZEROS", "NAN", "INF", "NAME"}};
      for (std::size_t i = 0; i < tensors.size(); ++i) rows.push_back(row_of(tensors[i], values[i]));
      rows.push_back({"total", grouped(all.count), min_text(all), max_text(all),
                      all.finite == 0 ? "-" : formatted("{:.6g}", all.mean()), grouped(all.zeros), grouped(all.nans),
                      grouped(all.infinities), ""});
      print_table(rows, out);
    }
    out.flush();
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

}  // namespace

void add_stats(Command& app) {
  const auto options = std::make_shared<StatsOptions>();
  Command command = app.add_command("stats", "Print the minimum, maximum and mean of each tensor");
  command.add_input("FILE", options->path, "A file, an index of shards, or a model folder").required();
  options->filter.declare(command, "Read only tensors whose name matches this pattern; repeatable");
  command.add_flag("--json", options->json, "Print one JSON object for each tensor");
  command.footer(kStatsNotes);
  command.on_run([options] { stats(*options); });
}

}  // namespace cli
