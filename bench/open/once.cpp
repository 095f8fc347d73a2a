// Opens one file with one reader in a process of its own, and says what it took: verdict, seconds, the peaks of
// malloc's memory and of the resident set above the start, all in one line.
//
// usage: bench_open_once LOADER FILE WARM_UP_FILE
//
// The warm-up, a small file, has the code in memory before the start is taken. A reader that maps the file has the
// pages of the header in its resident set too: they are memory that it needs.
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "counted_malloc.hpp"
#include "loaders.hpp"

namespace {

constexpr unsigned kPatienceSeconds = 120;

std::size_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kib = 0;
  while (status >> word) {
    if (word == field + ":" && status >> kib) return kib * 1024;
  }
  return 0;
}

void forget_peak_of_resident_set() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::size_t above(std::size_t peak, std::size_t start) { return peak > start ? peak - start : 0; }

}  // namespace

int main(int argc, char** argv) {
  const bench::Loader* const loader = argc == 4 ? bench::loader_named(argv[1]) : nullptr;
  if (loader == nullptr) {
    fmt::print(stderr, "usage: bench_open_once LOADER FILE WARM_UP_FILE\n");
    return 2;
  }
  alarm(kPatienceSeconds);
  if (void* const file = loader->open(argv[3])) loader->close(file);
  status_bytes("VmHWM");
  malloc_trim(0);

  forget_peak_of_resident_set();
  const std::size_t resident = status_bytes("VmRSS");
  bench::forget_peak_of_malloc();
  const std::size_t held = bench::held_of_malloc().bytes;
  const auto start = std::chrono::steady_clock::now();
  const bench::Opened opened = loader->open_explained(argv[2]);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::size_t held_peak = bench::held_of_malloc().peak;
  const std::size_t resident_peak = status_bytes("VmHWM");

  fmt::print("{} {:.9f} {} {}\n", opened.verdict, seconds, above(held_peak, held), above(resident_peak, resident));
  if (opened.file != nullptr) loader->close(opened.file);
  return 0;
}
