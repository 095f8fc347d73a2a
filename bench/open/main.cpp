// bench_open: what opening a file costs beside the reference, and what the least would be.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cases.hpp"
#include "memory.hpp"
#include "opening.hpp"

namespace {

constexpr const char* kUsual = "manifest.tsv";  // what layouts.py calls its lists
constexpr const char* kHostile = "hostile.tsv";

struct Options {
  std::string folder = "build/bench-data";
  std::string only;
  std::string against;
  int rounds = 9;
  bool memory = false;
  bool reused_only = false;
  bool kernels = false;
  bool json = false;
};

template <class Row>
void show(const std::string& title, const std::vector<Row>& rows, const Options& options) {
  if (!options.json) {
    fmt::print("{}\n", title);
    print(rows);
    fmt::print("\n");
    return;
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) all.push_back(json_of(row));
  fmt::print("{}\n", nlohmann::ordered_json{{"table", title}, {"rows", all}}.dump());
}

std::vector<bench::Case> selected(const Options& options, const std::string& manifest) {
  std::vector<bench::Case> cases = bench::read_cases(options.folder, manifest);
  std::erase_if(cases, [&](const bench::Case& tested) { return tested.name.find(options.only) == std::string::npos; });
  return cases;
}

std::vector<bench::OpenRow> open_all(const std::vector<bench::Case>& cases, const bench::Loader* before, int rounds,
                                     bench::Memory memory) {
  std::vector<bench::OpenRow> rows;
  for (const bench::Case& tested : cases) rows.push_back(bench::measure_open(tested, before, rounds, memory));
  return rows;
}

int run_times(const Options& options) {
  const std::vector<bench::Case> cases = selected(options, kUsual);
  const bench::Loader* const before = options.against.empty() ? nullptr : &bench::load_library(options.against);
  const std::string kernel = fmt::format(" (simdjson's kernel: {})", bench::kernel_in_use());
  show("open, in memory that the process has had before" + kernel,
       open_all(cases, before, options.rounds, bench::Memory::reused), options);
  if (options.reused_only) return 0;
  show("open, in memory fresh from the system" + kernel, open_all(cases, before, options.rounds, bench::Memory::fresh),
       options);
  std::vector<bench::FindRow> found;
  for (const bench::Case& tested : cases) {
    if (tested.kind == "open") found.push_back(bench::measure_find(tested, options.rounds));
  }
  show("find, ns a name, all names in random order", found, options);
  return 0;
}

int list_kernels() {
  for (const std::string& name : bench::kernels()) fmt::print("{}\n", name);
  return 0;
}

int run_memory(const Options& options) {
  const std::string once = std::filesystem::canonical("/proc/self/exe").replace_filename("bench_open_once");
  const std::string warm_up_file = bench::read_cases(options.folder, kUsual).front().files.front();
  bool right = true;
  for (const char* const manifest : {kUsual, kHostile}) {
    std::vector<bench::Case> cases = selected(options, manifest);
    std::erase_if(cases, [](const bench::Case& tested) { return tested.kind == "shards"; });
    std::vector<bench::MemoryRow> rows;
    for (const bench::Case& tested : cases) {
      rows.push_back(bench::measure_memory(tested, once, warm_up_file));
      for (const bench::Once& run : rows.back().runs) right = right && bench::verdict_is_right(tested, run);
    }
    show(manifest == kUsual ? "memory and the first open of a process" : "memory and time of hostile headers", rows,
         options);
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"What opening a safetensors file costs, beside the reference and the least possible."};
  app.add_option("folder", options.folder, "where bench/layouts.py put the files")->capture_default_str();
  app.add_option("--only", options.only, "only cases with this in their name");
  app.add_option("--rounds", options.rounds, "how many turns each reader has")
      ->check(CLI::Range(5, 1000))
      ->capture_default_str();
  app.add_option("--against", options.against, "another libsafetensors.so, which takes turns with this one");
  app.add_flag("--reused-only", options.reused_only, "only the first table of times");
  app.add_flag("--kernels", options.kernels, "name simdjson's kernels for this processor, and measure nothing");
  app.add_flag("--memory", options.memory, "peak memory and hostile headers instead of times");
  app.add_flag("--json", options.json, "a line of JSON per table");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.kernels) return list_kernels();
    return options.memory ? run_memory(options) : run_times(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_open: {}\n", error.what());
    return 2;
  }
}
