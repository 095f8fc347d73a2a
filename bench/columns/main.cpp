// Measures reading columns of matrices in the page cache, as each machine of a tensor-parallel model does.
//
// Eight matrices of F32 [4096, 4096]. All readers alternate in one process, on an open and mapped file, into memory that
// is already touched.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <safetensors/safetensors.h>

#include "../rounds.hpp"

#ifdef ST_BENCH_CRATES
extern "C" {
void* safetensors_crate_open(const char* path);
std::size_t safetensors_crate_columns(const void* file, const char* name, std::size_t len, std::size_t begin,
                                      std::size_t end, void* dst);
void safetensors_crate_free(void* file);
}
#endif

namespace {

constexpr std::uint64_t kTensors = 8;
constexpr std::uint64_t kRows = 4096;
constexpr std::uint64_t kColumns = 4096;
constexpr std::uint64_t kElement = sizeof(float);

[[noreturn]] void die(const char* why) {
  fmt::print(stderr, "bench_columns: {}\n", why);
  std::exit(1);
}

void must(st_status status, const st_error& error) {
  if (status != ST_OK) die(error.message);
}

std::string name_of(std::uint64_t i) { return fmt::format("layers.{}.weight", i); }

void make(const std::string& path) {
  const std::uint64_t shape[] = {kRows, kColumns};
  std::vector<std::uint32_t> values(kRows * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i * 2654435761U);
  st_error error = ST_INIT(st_error);
  st_writer* writer = nullptr;
  must(st_writer_new(&writer, &error), error);
  for (std::uint64_t i = 0; i < kTensors; ++i) {
    must(st_writer_add(writer, name_of(i).c_str(), ST_F32, 2, shape, values.data(), nullptr, &error), error);
  }
  must(st_writer_begin(writer, path.c_str(), nullptr, &error), error);
  must(st_writer_finish(writer, &error), error);
  st_writer_free(writer);
}

// One width of the columns, which begin in the middle of a row.
struct Question {
  const st_file* file = nullptr;
  std::uint64_t columns = 0;
  std::vector<char> dst;

  std::uint64_t begin() const { return columns == kColumns ? 0 : kColumns / 2; }
  std::uint64_t tensor_bytes() const { return kRows * columns * kElement; }
};

void read_by_plan(Question& question, st_cache cache, std::uint32_t threads) {
  st_error error = ST_INIT(st_error);
  st_read_options options = ST_INIT(st_read_options);
  options.cache = cache;
  options.threads = threads;
  st_plan* plan = nullptr;
  must(st_plan_new(question.file, &plan, &error), error);
  const std::int64_t begin[] = {0, static_cast<std::int64_t>(question.begin())};
  const std::int64_t end[] = {kRows, static_cast<std::int64_t>(question.begin() + question.columns)};
  char* dst = question.dst.data();
  for (std::uint64_t i = 0; i < kTensors; ++i, dst += question.tensor_bytes()) {
    const st_tensor* const tensor = st_get_tensor_at(question.file, i);
    must(st_plan_add(plan, tensor, begin, end, nullptr, dst, question.tensor_bytes(), &error), error);
  }
  must(st_plan_run(plan, &options, &error), error);
  st_plan_free(plan);
}

// The upper bound: every run is copied from the view, on as many threads.
void copy_from_views(Question& question, unsigned threads) {
  const auto copy_rows = [&](std::uint64_t first, std::uint64_t last) {
    char* dst = question.dst.data();
    for (std::uint64_t i = 0; i < kTensors; ++i, dst += question.tensor_bytes()) {
      const char* const src =
          static_cast<const char*>(st_tensor_data(st_get_tensor_at(question.file, i))) + question.begin() * kElement;
      const std::size_t run = question.columns * kElement;
      for (std::uint64_t row = first; row < last; ++row) {
        std::memcpy(dst + row * run, src + row * kColumns * kElement, run);
      }
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(copy_rows, kRows * i / threads, kRows * (i + 1) / threads);
  copy_rows(0, kRows / threads);
  for (std::thread& other : others) other.join();
}

#ifdef ST_BENCH_CRATES
void copy_by_crate(Question& question, const void* file) {
  char* dst = question.dst.data();
  for (std::uint64_t i = 0; i < kTensors; ++i) {
    const std::string name = name_of(i);
    dst += safetensors_crate_columns(file, name.data(), name.size(), question.begin(),
                                     question.begin() + question.columns, dst);
  }
}
#endif

std::vector<std::function<void()>> ways_of(Question& question, const void* crate, unsigned threads) {
  std::vector<std::function<void()>> ways = {[&] { read_by_plan(question, ST_CACHE_MAPPED, threads); },
                                             [&] { read_by_plan(question, ST_CACHE_AUTO, threads); },
                                             [&question, threads] { copy_from_views(question, threads); },
                                             [&] { read_by_plan(question, ST_CACHE_MAPPED, 1); },
                                             [&question] { copy_from_views(question, 1); }};
#ifdef ST_BENCH_CRATES
  ways.emplace_back([&question, crate] { copy_by_crate(question, crate); });
#else
  static_cast<void>(crate);
#endif
  return ways;
}

// Every way must have read the same bytes.
void compare_bytes(Question& question, const std::vector<std::function<void()>>& ways) {
  std::vector<char> first;
  for (const auto& way : ways) {
    std::fill(question.dst.begin(), question.dst.end(), '\0');
    way();
    if (first.empty()) first = question.dst;
    if (first != question.dst) die("the ways do not agree on the bytes");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("measures reading columns of cached matrices");
  std::string path;
  int rounds = 15;
  app.add_option("file", path, "the file, of 512 MiB, which is made if it does not exist")->required();
  app.add_option("--rounds", rounds, "how many turns each way has")->check(CLI::Range(5, 1000));
  CLI11_PARSE(app, argc, argv);
  if (!std::filesystem::exists(path)) make(path);
  const unsigned threads = std::max(1U, std::thread::hardware_concurrency());

  st_error error = ST_INIT(st_error);
  st_file* file = nullptr;
  must(st_open(path.c_str(), nullptr, &file, &error), error);
  if (st_tensor_data(st_get_tensor_at(file, 0)) == nullptr) die("the file cannot be mapped");
  void* crate = nullptr;
#ifdef ST_BENCH_CRATES
  crate = safetensors_crate_open(path.c_str());
#endif
  fmt::print("columns of 8 cached matrices F32 [4096, 4096], {} threads; ms, minima; >= 1: ours is faster\n", threads);
  fmt::print("{:>7} {:>8} {:>8} {:>8} {:>12} {:>9} {:>9} {:>10} {:>8} {:>10}\n", "columns", "MAPPED", "AUTO", "memcpy",
             "memcpy/ours", "MAPPED-1", "memcpy-1", "memcpy/ours", "crate", "crate/ours");
  for (const std::uint64_t columns : {1U, 16U, 64U, 256U, 1024U, 4096U}) {
    Question question{file, columns, std::vector<char>(kTensors * kRows * columns * kElement, 'x')};
    const auto ways = ways_of(question, crate, threads);
    compare_bytes(question, ways);
    std::vector<double> ms;
    for (const bench::Sample& sample : bench::alternate(ways, rounds)) ms.push_back(sample.min_ns / 1e6);
    fmt::print("{:>7} {:>8.2f} {:>8.2f} {:>8.2f} {:>12.2f} {:>9.2f} {:>9.2f} {:>10.2f}", columns, ms[0], ms[1], ms[2],
               ms[2] / ms[0], ms[3], ms[4], ms[4] / ms[3]);
    if (ms.size() > 5) fmt::print(" {:>8.2f} {:>10.2f}", ms[5], ms[5] / ms[3]);
    fmt::print("\n");
  }
#ifdef ST_BENCH_CRATES
  safetensors_crate_free(crate);
#endif
  st_free(file);
  return 0;
}
