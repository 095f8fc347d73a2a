// 64 threads query, read, slice, and run and cancel plans on one handle at the same time. Mainly for ThreadSanitizer
// (./dev tsan); other builds still compare every byte.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "safetensors/safetensors.h"
#include "system.h"

namespace {

constexpr unsigned kThreads = 64;
constexpr unsigned kTensors = 12;
constexpr std::size_t kRows = 500;
constexpr std::size_t kColumns = 1001;
constexpr std::size_t kTensorBytes = kRows * kColumns;

std::atomic<int> faults{0};

void check(bool holds, const char* what, const st_error* err = nullptr) {
  if (holds) return;
  std::fprintf(stderr, "threads: %s%s%s\n", what, err != nullptr ? ": " : "", err != nullptr ? err->message : "");
  ++faults;
}

unsigned char pattern(std::uint64_t i) { return static_cast<unsigned char>(i * 131 + (i >> 9)); }

std::string write_sample() {
  std::string header = "{";
  for (unsigned t = 0; t < kTensors; ++t) {
    char entry[200];
    std::snprintf(entry, sizeof entry,
                  "%s\"t%u\":{\"dtype\":\"U8\",\"shape\":[%llu,%llu],\"data_offsets\":[%llu,%llu]}", t == 0 ? "" : ",",
                  t, 0ULL + kRows, 0ULL + kColumns, t * kTensorBytes + 0ULL, (t + 1) * kTensorBytes + 0ULL);
    header += entry;
  }
  header += "}";
  std::vector<unsigned char> data(kTensors * kTensorBytes);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(i);
  std::string folder = (std::filesystem::temp_directory_path() / "st_threads_XXXXXX").string();
  check(test_make_folder(folder.data()) != nullptr, "a folder");
  const std::string path = folder + "/model";
  std::ofstream file(path, std::ios::binary);
  for (unsigned i = 0; i < 8; ++i) file.put(static_cast<char>(std::uint64_t{header.size()} >> (8 * i)));
  file << header;
  file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  check(file.flush().good(), "write");
  test_evict(path.c_str());
  return path;
}

void look(const st_file* file, unsigned t) {
  std::string name = std::to_string(t);
  name.insert(name.begin(), 't');
  const st_tensor* const tensor = st_get_tensor(file, name.c_str());
  check(tensor != nullptr && st_tensor_bytes(tensor) == kTensorBytes && st_tensor_shape(tensor)[1] == kColumns, "look");
  size_t length = 0;
  check(st_get_header(file, 0, &length) != nullptr && length > 0, "header");
  st_free(st_retain(file));
}

void read_one(const st_file* file, unsigned t, std::vector<unsigned char>& memory) {
  const st_tensor* const tensor = st_get_tensor_at(file, t);
  st_error err = ST_INIT(st_error);
  memory.assign(kTensorBytes, 0);
  check(st_tensor_read(tensor, memory.data(), kTensorBytes, &err) == ST_OK, "read", &err);
  check(memory[12345] == pattern(t * kTensorBytes + 12345), "bytes of a read");
  const std::int64_t begin[] = {0, 77}, end[] = {INT64_MAX, 78};
  check(st_tensor_read_slice(tensor, begin, end, nullptr, memory.data(), kRows, &err) == ST_OK, "slice", &err);
  check(memory[9] == pattern(t * kTensorBytes + 9 * kColumns + 77), "bytes of a slice");
}

void run_plan(const st_file* file, unsigned seed, bool cancel, std::vector<unsigned char>& memory) {
  st_error err = ST_INIT(st_error);
  st_plan* plan = nullptr;
  memory.assign(kTensors * kTensorBytes, 0);
  check(st_plan_new(file, &plan, &err) == ST_OK, "plan", &err);
  for (unsigned t = 0; t < kTensors; ++t) {
    check(st_plan_add(plan, st_get_tensor_at(file, t), nullptr, nullptr, nullptr, memory.data() + t * kTensorBytes,
                      kTensorBytes, &err) == ST_OK,
          "add", &err);
  }
  st_read_options options = ST_INIT(st_read_options);
  options.threads = 1 + seed % 4;
  options.cache = static_cast<st_cache>(seed % 3);
  options.chunk_bytes = seed % 2 == 0 ? 65536 : 0;
  std::atomic<bool> over{false};  // set even if the run fails before its first byte
  std::thread other;
  if (cancel) {
    other = std::thread([plan, &over] {
      std::uint64_t done = 0;
      while (done == 0 && !over) st_plan_progress(plan, &done, nullptr);
      st_plan_cancel(plan);
    });
  }
  const st_status status = st_plan_run(plan, &options, &err);
  over = true;
  if (other.joinable()) other.join();
  check(status == ST_OK || (cancel && status == ST_ERR_CANCELLED), "run", &err);
  for (unsigned t = 0; t < kTensors; ++t) {
    if (!st_plan_is_complete(plan, t)) {
      check(status == ST_ERR_CANCELLED, "an incomplete tensor of a complete run");
      continue;
    }
    for (std::size_t i = 0; i < kTensorBytes; i += 4099) {
      check(memory[t * kTensorBytes + i] == pattern(t * kTensorBytes + i), "bytes of a plan");
    }
  }
  st_plan_free(plan);
}

}  // namespace

int main() {
  const std::string path = write_sample();
  for (const st_io io : {ST_IO_AUTO, ST_IO_READ}) {
    st_open_options options = ST_INIT(st_open_options);
    options.io = io;
    st_error err = ST_INIT(st_error);
    st_file* file = nullptr;
    check(st_open(path.c_str(), &options, &file, &err) == ST_OK, "open", &err);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
      threads.emplace_back([file, i] {
        std::vector<unsigned char> memory;
        for (unsigned round = 0; round < 4; ++round) {
          look(file, (i + round) % kTensors);
          if (i % 2 == 0) read_one(file, (i + round) % kTensors, memory);
          if (i % 2 == 1) run_plan(file, i * 7 + round, i % 4 == 3, memory);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    st_free(file);
  }
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  std::printf("%u threads, %d faults\n", kThreads, faults.load());
  return faults.load() != 0;
}
