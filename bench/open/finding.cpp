// How long it takes to find a tensor by name: every name of the file in random order, and as many that are absent.
//
// The names asked for stand one behind the other in the order of asking, so that what is measured is the index and
// not the fetching of the question. An absent name differs from a present one in its last byte only.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>

#include <fmt/format.h>

#include "opening.hpp"

namespace bench {

namespace {

using Work = std::function<void()>;

struct Names {
  std::string text;
  std::vector<std::uint32_t> lengths;
};

Names names_in(const st_file* file, bool present) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < st_count_tensors(file); ++i) {
    std::size_t len = 0;
    const char* const name = st_tensor_name(st_get_tensor_at(file, i), &len);
    all.emplace_back(name, len);
    if (!present) all.back().back() = '~';
  }
  std::shuffle(all.begin(), all.end(), std::mt19937_64{42});
  Names names;
  for (const std::string& name : all) {
    names.text += name;
    names.lengths.push_back(static_cast<std::uint32_t>(name.size()));
  }
  return names;
}

std::size_t count_found(const Loader& loader, const void* file, const Names& names) {
  const char* at = names.text.data();
  std::size_t found = 0;
  for (const std::uint32_t length : names.lengths) {
    found += loader.find(file, at, length) != nullptr;
    at += length;
  }
  return found;
}

using Handle = std::shared_ptr<void>;

Handle open(const Loader* loader, const std::string& path) {
  if (loader == nullptr || path.empty()) return {};
  void* const file = loader->open(path.c_str());
  if (file == nullptr) throw std::runtime_error(fmt::format("{} refuses '{}'", loader->name, path));
  return {file, loader->close};
}

Work finding(const Loader* loader, const Handle& file, const std::shared_ptr<Names>& names, std::size_t expected) {
  if (!file) return {};
  return [=] {
    if (count_found(*loader, file.get(), *names) != expected) {
      throw std::runtime_error(fmt::format("{} finds what is not there or misses what is", loader->name));
    }
  };
}

std::string name_time(const Sample& sample) { return sample.min_ns == 0 ? "-" : fmt::format("{:.1f}", sample.min_ns); }

}  // namespace

FindRow measure_find(const Case& tested, int rounds) {
  const Handle ours = open(&kOurs, tested.files.front());
  const Handle crate = open(kCrate, tested.files.front());
  const Handle bintensors = open(kBintensorsCrate, tested.bintensors_file);
  const auto present = std::make_shared<Names>(names_in(static_cast<const st_file*>(ours.get()), true));
  const auto absent = std::make_shared<Names>(names_in(static_cast<const st_file*>(ours.get()), false));
  const std::size_t count = present->lengths.size();
  std::vector<Sample> samples = alternate(
      {finding(&kOurs, ours, present, count), finding(&kOurs, ours, absent, 0), finding(kCrate, crate, present, count),
       finding(kCrate, crate, absent, 0), finding(kBintensorsCrate, bintensors, present, count),
       finding(kBintensorsCrate, bintensors, absent, 0)},
      rounds);
  for (Sample& sample : samples) {
    sample.min_ns /= static_cast<double>(count);
    sample.median_ns /= static_cast<double>(count);
  }
  return {&tested, samples[0], samples[1], samples[2], samples[3], samples[4], samples[5]};
}

void print(const std::vector<FindRow>& rows) {
  fmt::print("{:<14}{:>8} |{:>10}{:>10} |{:>12}{:>12} |{:>12}{:>12}\n", "", "tensors", "ours hit", "miss", "crate hit",
             "miss", "bintens. hit", "miss");
  for (const FindRow& row : rows) {
    fmt::print("{:<14}{:>8} |{:>10}{:>10} |{:>12}{:>12} |{:>12}{:>12}\n", row.tested->name, row.tested->tensors,
               name_time(row.ours_hit), name_time(row.ours_miss), name_time(row.crate_hit), name_time(row.crate_miss),
               name_time(row.bintensors_hit), name_time(row.bintensors_miss));
  }
}

nlohmann::ordered_json json_of(const FindRow& row) {
  nlohmann::ordered_json json{{"case", row.tested->name}, {"tensors", row.tested->tensors}};
  const auto add = [&json](const char* name, const Sample& sample) {
    if (sample.min_ns != 0) json[name] = {{"min_ns", sample.min_ns}, {"median_ns", sample.median_ns}};
  };
  add("ours_hit", row.ours_hit);
  add("ours_miss", row.ours_miss);
  add("crate_hit", row.crate_hit);
  add("crate_miss", row.crate_miss);
  add("bintensors_hit", row.bintensors_hit);
  add("bintensors_miss", row.bintensors_miss);
  return json;
}

}  // namespace bench
