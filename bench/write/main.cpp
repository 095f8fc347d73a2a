// bench_write: what writing costs beside the reference, and beside the least that could be done.
//
// In each round every way has its turn. Before a turn the target is removed and what was written before is on the
// disk, so that no turn pays for another one's dirty pages. The tensors lie in memory and were touched.
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "editing.hpp"
#include "writers.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

struct Options {
  std::string folder = "build/bench-data";
  std::string only;
  int rounds = 5;
};

struct Times {
  std::vector<double> wall;
  std::vector<double> cpu;

  double least() const { return *std::min_element(wall.begin(), wall.end()); }
  double least_cpu() const { return *std::min_element(cpu.begin(), cpu.end()); }
  double median() const {
    std::vector<double> sorted = wall;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::vector<Times> in_turns(const std::vector<bench::Way>& ways, const std::string& target, int rounds) {
  std::vector<Times> times(ways.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      fs::remove(target);
      sync();
      const double cpu = cpu_seconds();
      const auto start = Clock::now();
      ways[i].write(target);
      const double wall = std::chrono::duration<double>(Clock::now() - start).count();
      if (round == 0) continue;  // warms up
      times[i].wall.push_back(wall);
      times[i].cpu.push_back(cpu_seconds() - cpu);
    }
  }
  fs::remove(target);
  return times;
}

struct Memory {
  std::unique_ptr<std::byte[]> bytes;
  explicit Memory(std::size_t n) : bytes(new std::byte[n]) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i + 8 <= n; i += 8) {
      const std::uint64_t word = random();
      std::copy_n(reinterpret_cast<const std::byte*>(&word), 8, bytes.get() + i);
    }
  }
};

void print(const std::string& title, const std::vector<bench::Way>& ways, const std::vector<Times>& times, std::size_t bytes) {
  fmt::print("{}\n  {:8} {:>10} {:>10} {:>8} {:>8} {:>10} {:>10}\n", title, "way", "best ms", "median ms", "GB/s", "cpu s",
             "x pwrite", "x crate");
  const auto crate = std::find_if(ways.begin(), ways.end(), [](const bench::Way& way) { return way.name == "crate"; });
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const double best = times[i].least();
    const double to_crate = crate == ways.end() ? 0 : times[static_cast<std::size_t>(crate - ways.begin())].least() / best;
    fmt::print("  {:8} {:10.1f} {:10.1f} {:8.2f} {:8.3f} {:10.2f} {:10.2f}\n", ways[i].name, best * 1e3, times[i].median() * 1e3,
               static_cast<double>(bytes) / best / 1e9, times[i].least_cpu(), times[0].least() / best, to_crate);
  }
  fmt::print("\n");
}

void large(std::size_t bytes, const Options& options) {
  constexpr std::size_t kTensors = 64;
  const Memory memory(bytes);
  std::vector<bench::Input> tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    tensors.push_back({fmt::format("layers.{}.weight", i), memory.bytes.get() + i * (bytes / kTensors), bytes / kTensors});
  }
  const auto ways = bench::ways(tensors);
  print(fmt::format("{} MiB in {} tensors", bytes / kMiB, kTensors), ways,
        in_turns(ways, options.folder + "/target.safetensors", options.rounds), bytes);
}

void small(const Options& options) {
  constexpr std::size_t kTensors = 100'000;
  constexpr std::size_t kBytes = 64;
  const Memory memory(kTensors * kBytes);
  std::vector<bench::Input> tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    tensors.push_back({fmt::format("model.layers.{}.mlp.experts.{}.down_proj.weight", i / 1000, i % 1000),
                       memory.bytes.get() + i * kBytes, kBytes});
  }
  std::shuffle(tensors.begin(), tensors.end(), std::mt19937_64(1));  // as a hash map hands them out
  const auto ways = bench::ways(tensors);
  print(fmt::format("{} tensors of {} bytes, names in no order", kTensors, kBytes), ways,
        in_turns(ways, options.folder + "/target.safetensors", 3 * options.rounds), kTensors * kBytes);
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto sorted_ways = bench::ways(tensors);
  print(fmt::format("{} tensors of {} bytes, names in order", kTensors, kBytes), sorted_ways,
        in_turns(sorted_ways, options.folder + "/target.safetensors", 3 * options.rounds), kTensors * kBytes);
}

std::size_t peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

// In a process of its own: the peak of this one has seen the tables above.
void streaming(const Options& options) {
  const std::string target = options.folder + "/target.safetensors";
  fflush(stdout);
  if (const pid_t pid = fork(); pid != 0) {
    waitpid(pid, nullptr, 0);
    fs::remove(target);
    return;
  }
  std::ofstream("/proc/self/clear_refs") << 5;  // forget the peak so far
  const std::size_t before = peak_resident();
  const auto start = Clock::now();
  bench::stream(target, 4 * kGiB);
  const double wall = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("streaming 4 GiB: peak {:.1f} MiB above the start, {:.2f} GB/s\n\n",
             static_cast<double>(peak_resident() - before) / static_cast<double>(kMiB), static_cast<double>(4 * kGiB) / wall / 1e9);
  fflush(stdout);
  _exit(0);
}

void editing(const Options& options) {
  const std::string target = options.folder + "/target.safetensors";
  for (const bool room : {true, false}) {
    std::vector<double> times;
    for (int i = 0; i < 101; ++i) {
      if (i == 0 || !room) bench::make_sparse(target, 3 * kGiB, room ? 500 : 0);
      const auto start = Clock::now();
      bench::edit(target, "note", fmt::format("edit {:03}", i));
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      if (!room && i == 2) break;
    }
    std::sort(times.begin(), times.end());
    fmt::print("one key of a 3 GiB sparse file, {}: best {:.3f} ms, median {:.3f} ms, worst {:.3f} ms\n",
               room ? "with room, in place" : "without room, a new file", times.front(), times[times.size() / 2], times.back());
  }
  fs::remove(target);
}

void run(const Options& options) {
  const auto wanted = [&](const char* name) { return options.only.empty() || options.only == name; };
  if (wanted("512")) large(512 * kMiB, options);
  if (wanted("2048")) large(2 * kGiB, options);
  if (wanted("small")) small(options);
  if (wanted("stream")) streaming(options);
  if (wanted("edit")) editing(options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"What writing a safetensors file costs, beside the reference and a plain pwrite loop."};
  app.add_option("folder", options.folder, "where to write, on the disk to be measured")->capture_default_str();
  app.add_option("--only", options.only, "512, 2048, small, stream or edit");
  app.add_option("--rounds", options.rounds, "how many turns each way has")->check(CLI::Range(1, 1000))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    fs::create_directories(options.folder);
    run(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_write: {}\n", error.what());
    return 2;
  }
}
