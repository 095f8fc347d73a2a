// How fast do a checkpoint's bytes get into the caller's memory? One load per process, one line about it; read.py runs
// the loaders in turns and compares.
//
//   bench_read LOADER WHAT MEMORY MODEL FILE...
//     LOADER  plan plan-through plan-around plan-exact plan-1 plan-host loop | memcpy buffered buffered-1 plain-loop direct
//             io_uring | evict resident
//     WHAT    all | tenth | column:TENSOR
//     MEMORY  reused (touched before the clock starts) | fresh
//   MODEL is what the library opens; the files are for the loaders that know nothing of checkpoints.
// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "measure.hpp"
#include "roofs.hpp"
#include "safetensors/safetensors.h"

namespace {

using bench::Cost;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kPage = 4096;

[[noreturn]] void die(std::string_view what) {
  std::fprintf(stderr, "bench_read: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

void must(st_status status, const st_error& error) {
  if (status != ST_OK) die(error.message);
}

struct Item {
  const st_tensor* tensor;
  std::vector<std::int64_t> begin;  // empty: the whole tensor
  std::vector<std::int64_t> end;
  std::uint64_t bytes;
  std::uint64_t at;  // in the destination
};

std::string_view name_of(const st_tensor* tensor) {
  size_t size = 0;
  const char* const name = st_tensor_name(tensor, &size);
  return {name, size};
}

// The second quarter of the columns: what one of four machines of a tensor-parallel model reads.
Item column_of(const st_file* file, const std::string& name, st_error& error) {
  const st_tensor* const tensor = st_get_tensor(file, name.c_str());
  if (tensor == nullptr || st_tensor_rank(tensor) != 2) die("no matrix of that name");
  const auto columns = static_cast<std::int64_t>(st_tensor_shape(tensor)[1]);
  Item item{tensor, {0, columns / 4}, {INT64_MAX, columns / 2}, 0, 0};
  must(st_tensor_slice(tensor, item.begin.data(), item.end.data(), nullptr, nullptr, &item.bytes, nullptr, &error),
       error);
  return item;
}

// Destinations as a careful caller lays them out: in the order of the file, each as far into a page as in its file.
std::uint64_t place(std::vector<Item>& items) {
  std::uint64_t at = 0;
  for (Item& item : items) {
    const std::uint64_t wanted = st_tensor_offset(item.tensor) % kPage;
    at += (wanted + kPage - at % kPage) % kPage;
    item.at = at;
    at += item.bytes;
  }
  return at;
}

std::vector<Item> items_of(const st_file* file, const std::string& what, st_error& error) {
  std::vector<Item> items;
  if (what.starts_with("column:")) return {column_of(file, what.substr(7), error)};
  for (size_t i = 0; i < st_count_tensors(file); ++i) {
    const st_tensor* const tensor = st_get_tensor_at(file, i);
    if (what == "tenth" && i % 10 != 5) continue;
    items.push_back({tensor, {}, {}, st_tensor_bytes(tensor), 0});
  }
  return items;
}

// Every byte, and which tensor it belongs to; the same as in the other languages' loaders.
std::uint64_t checksum(const std::vector<Item>& items, const char* dst) {
  std::uint64_t sum = 0;
  for (const Item& item : items) {
    const std::string_view name = name_of(item.tensor);
    sum += XXH3_64bits(dst + item.at, item.bytes) * (XXH3_64bits(name.data(), name.size()) | 1);
  }
  return sum;
}

void on_host_threads(void*, size_t n, void (*fn)(void*, size_t), void* arg) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < n; ++i) threads.emplace_back(fn, arg, i);
  for (std::thread& thread : threads) thread.join();
}

st_read_options options_of(const std::string& loader) {
  st_read_options options = ST_INIT(st_read_options);
  if (loader == "plan-through") options.cache = ST_CACHE_THROUGH;
  if (loader == "plan-around") options.cache = ST_CACHE_AROUND;
  if (loader == "plan-exact") options.gap_bytes = 1;
  if (loader == "plan-1") options.threads = 1;
  if (loader == "plan-host") options.parallel_for = on_host_threads;
  return options;
}

void read_by_plan(const st_file* file, const std::vector<Item>& items, char* dst, const std::string& loader,
                  st_error& error) {
  const st_read_options options = options_of(loader);
  st_plan* plan = nullptr;
  must(st_plan_new(file, &plan, &error), error);
  for (const Item& item : items) {
    const bool part = !item.begin.empty();
    must(st_plan_add(plan, item.tensor, part ? item.begin.data() : nullptr, part ? item.end.data() : nullptr, nullptr,
                     dst + item.at, item.bytes, &error),
         error);
  }
  must(st_plan_run(plan, &options, &error), error);
  st_plan_free(plan);
}

// What a program without plans would do.
void read_in_a_loop(const std::vector<Item>& items, char* dst, st_error& error) {
  for (const Item& item : items) {
    if (item.begin.empty()) {
      must(st_tensor_read(item.tensor, dst + item.at, item.bytes, &error), error);
    } else {
      must(st_tensor_read_slice(item.tensor, item.begin.data(), item.end.data(), nullptr, dst + item.at, item.bytes,
                                &error),
           error);
    }
  }
}

struct FreeBuffer {
  void operator()(char* buffer) const { st_buffer_free(buffer); }
};
using Buffer = std::unique_ptr<char, FreeBuffer>;

Buffer new_buffer(std::uint64_t bytes, bool fresh, st_error& error) {
  void* memory = nullptr;
  must(st_buffer_new(bytes, fresh ? ST_BUFFER_LAZY : 0, 0, &memory, &error), error);
  return Buffer(static_cast<char*>(memory));
}

void load(const std::string& loader, const std::string& what, bool fresh, const std::string& path) {
  st_error error = ST_INIT(st_error);
  st_file* file = nullptr;
  std::vector<Item> items;
  Buffer buffer;
  const auto prepare = [&] {
    must(st_open(path.c_str(), nullptr, &file, &error), error);
    items = items_of(file, what, error);
    const std::uint64_t bytes = place(items);
    if (!buffer) buffer = new_buffer(bytes, fresh, error);
  };
  if (!fresh) {  // the memory from an earlier model
    prepare();
    st_free(file);
  }
  const Cost cost = bench::measure([&] {
    prepare();
    if (loader == "loop") {
      read_in_a_loop(items, buffer.get(), error);
    } else {
      read_by_plan(file, items, buffer.get(), loader, error);
    }
  });
  std::uint64_t bytes = 0;
  for (const Item& item : items) bytes += item.bytes;
  bench::report(cost, bytes, checksum(items, buffer.get()));
  st_free(file);
}

void roof(const std::string& loader, bool fresh, const std::vector<bench::RawFile>& files) {
  st_error error = ST_INIT(st_error);
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  const std::uint64_t room = files.back().at + files.back().size + 2 * kPage;
  const auto mappings = loader == "memcpy" ? bench::populated_mappings(files) : std::vector<const char*>();
  Buffer buffer;
  if (!fresh) buffer = new_buffer(room, fresh, error);
  bool done = true;
  const Cost cost = bench::measure([&] {
    if (fresh) buffer = new_buffer(room, fresh, error);
    if (loader == "memcpy") bench::copy_from(mappings, files, buffer.get(), cores);
    if (loader == "buffered") bench::pread_pool(files, buffer.get(), 4, kMiB, false);
    if (loader == "plain-loop") bench::pread_pool(files, buffer.get(), 1, 8 * kMiB, false);
    if (loader == "buffered-1") bench::pread_pool(files, buffer.get(), 1, kMiB, false);
    if (loader == "direct") bench::pread_pool(files, buffer.get(), 16, 2 * kMiB, true);
    if (loader == "io_uring") done = bench::io_uring_pool(files, buffer.get(), 16, 2 * kMiB);
  });
  if (!done) die("io_uring is denied here");
  bench::report(cost, bench::total_size(files), 0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 5) die("usage: bench_read LOADER all|tenth|column:TENSOR reused|fresh MODEL FILE...");
  const std::string& loader = args[0];
  const auto files = bench::raw_files({args.begin() + 4, args.end()});
  if (loader == "evict") {
    bench::evict(files);
  } else if (loader == "resident") {
    std::printf("%.4f\n", bench::resident_share(files));
  } else if (loader.starts_with("plan") || loader == "loop") {
    load(loader, args[1], args[2] == "fresh", args[3]);
  } else {
    roof(loader, args[2] == "fresh", files);
  }
}
