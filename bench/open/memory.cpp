// How much memory an open takes, and how long hostile headers take to be judged: every open in a new process.
// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <array>
#include <cstdio>
#include <memory>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "loaders.hpp"

namespace bench {

namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw std::runtime_error("popen: no process can be started");
  std::array<char, 256> line{};
  return std::fgets(line.data(), line.size(), pipe.get()) != nullptr ? line.data() : "";
}

Once run_once(const Loader& loader, const std::string& path, const std::string& once, const std::string& warm_up_file) {
  Once run{std::string(loader.name), "-", 0, 0, 0};
  std::istringstream words(output_of(fmt::format("'{}' {} '{}' '{}'", once, loader.name, path, warm_up_file)));
  words >> run.verdict >> run.seconds >> run.heap_peak >> run.resident_peak;
  if (!words) run.verdict = "-";
  return run;
}

double per(std::size_t bytes, std::size_t count) {
  return count == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(count);
}

// What each tensor takes once the header itself is paid for; it says nothing of a file with few of them.
std::string beyond_header(std::size_t bytes, const Case& tested) {
  if (tested.tensors < 100) return "-";
  return fmt::format("{:.1f}", bytes > tested.header_bytes ? per(bytes - tested.header_bytes, tested.tensors) : 0);
}

}  // namespace

bool verdict_is_right(const Case& tested, const Once& run) {
  if (run.loader == kOurs.name) return run.verdict == tested.our_verdict;
  if (run.loader == kOursAsReference.name) return (run.verdict == "ST_OK") == (tested.reference_verdict == "ok");
  return run.loader == kFloor.name || run.verdict == tested.reference_verdict;
}

MemoryRow measure_memory(const Case& tested, const std::string& once, const std::string& warm_up_file) {
  MemoryRow row{&tested, {}};
  const bool hostile = tested.kind == "hostile";
  for (const Loader* const loader : {&kOurs, hostile ? &kOursAsReference : nullptr, kCrate, &kFloor}) {
    if (loader != nullptr) row.runs.push_back(run_once(*loader, tested.files.front(), once, warm_up_file));
  }
  return row;
}

void print(const std::vector<MemoryRow>& rows) {
  fmt::print("{:<18}{:>8}{:>10}  {:<18}{:<18}{:>13}{:>10}{:>10}{:>9}{:>9}{:>9}\n", "", "tensors", "header", "",
             "verdict", "first open", "heap KiB", "RSS KiB", "heap/hdr", "RSS/hdr", "beyond/t");
  for (const MemoryRow& row : rows) {
    const Case& tested = *row.tested;
    std::string label = fmt::format("{:<18}{:>8}{:>10}", tested.name, tested.tensors, tested.header_bytes);
    for (const Once& run : row.runs) {
      fmt::print("{:<36}  {:<18}{:<18}{:>10.2f} ms{:>10}{:>10}{:>9.2f}{:>9.2f}{:>9}{}\n", label, run.loader,
                 run.verdict, run.seconds * 1e3, run.heap_peak / 1024, run.resident_peak / 1024,
                 per(run.heap_peak, tested.header_bytes), per(run.resident_peak, tested.header_bytes),
                 beyond_header(run.heap_peak, tested), verdict_is_right(tested, run) ? "" : "  WRONG");
      label.clear();
    }
  }
}

nlohmann::ordered_json json_of(const MemoryRow& row) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const Once& run : row.runs) {
    runs.push_back({{"loader", run.loader},
                    {"verdict", run.verdict},
                    {"right", verdict_is_right(*row.tested, run)},
                    {"seconds", run.seconds},
                    {"heap_peak", run.heap_peak},
                    {"resident_peak", run.resident_peak}});
  }
  return {{"case", row.tested->name},
          {"tensors", row.tested->tensors},
          {"header_bytes", row.tested->header_bytes},
          {"runs", runs}};
}

}  // namespace bench
