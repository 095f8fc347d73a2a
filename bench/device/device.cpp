// How long does it take to fill a device with a file, beside what the disk and the bus allow?
//
// With a fake device, whose copies take their time and no processor, the disk is measured first; the device then copies at
// half, the same and twice its speed. What is lost is what a plan takes beyond the slower of the two.
// usage: bench_device FILE [--fake LIBRARY] [--rounds N]
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <safetensors/safetensors.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::exit(1);
}

void check(st_status status, const st_error& error) {
  if (status != ST_OK) give_up(error.message);
}

template <class Work>
double seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Outcome {
  double seconds = std::numeric_limits<double>::infinity();
  st_plan_stats stats{};
};

// The first run of a device that was just opened, so that pinning counts.
Outcome load(const st_file* file, const st_device_options* device_options, st_cache cache, void* host) {
  st_error error = ST_INIT(st_error);
  st_device* device = nullptr;
  if (device_options != nullptr) check(st_device_open_cuda(device_options, &device, &error), error);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < st_count_tensors(file); ++i) bytes += st_tensor_bytes(st_get_tensor_at(file, i));
  void* memory = host;
  if (device != nullptr) check(st_device_alloc(device, bytes, &memory, &error), error);
  st_plan* plan = nullptr;
  check(st_plan_new(file, &plan, &error), error);
  auto* at = static_cast<char*>(memory);
  for (std::size_t i = 0; i < st_count_tensors(file); ++i) {
    const st_tensor* const tensor = st_get_tensor_at(file, i);
    const auto size = static_cast<std::size_t>(st_tensor_bytes(tensor));
    check(device != nullptr
              ? st_plan_add_device(plan, device, nullptr, tensor, nullptr, nullptr, nullptr, at, size, &error)
              : st_plan_add(plan, tensor, nullptr, nullptr, nullptr, at, size, &error),
          error);
    at += size;
  }
  st_read_options options = ST_INIT(st_read_options);
  options.cache = cache;
  Outcome outcome;
  outcome.seconds = seconds([&] { check(st_plan_run(plan, &options, &error), error); });
  outcome.stats = ST_INIT(st_plan_stats);
  st_plan_get_stats(plan, &outcome.stats);
  st_plan_free(plan);
  if (device != nullptr) st_device_release(device, memory);
  st_device_free(device);
  return outcome;
}

// Copies from one pinned buffer in a loop: nothing brings bytes to the device faster.
double roof(std::uint64_t bytes) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) give_up("no CUDA driver");
  const auto find = [driver](const char* name) { return dlsym(driver, name); };
  const auto retain = reinterpret_cast<int (*)(void**, int)>(find("cuDevicePrimaryCtxRetain"));
  const auto push = reinterpret_cast<int (*)(void*)>(find("cuCtxPushCurrent_v2"));
  const auto host_alloc = reinterpret_cast<int (*)(void**, std::size_t, unsigned)>(find("cuMemHostAlloc"));
  const auto alloc = reinterpret_cast<int (*)(std::uintptr_t*, std::size_t)>(find("cuMemAlloc_v2"));
  const auto copy =
      reinterpret_cast<int (*)(std::uintptr_t, const void*, std::size_t, void*)>(find("cuMemcpyHtoDAsync_v2"));
  const auto wait = reinterpret_cast<int (*)(void*)>(find("cuStreamSynchronize"));
  void* context = nullptr;
  void* from = nullptr;
  std::uintptr_t to = 0;
  constexpr std::size_t kBuffer = 64 * kMiB;
  if (retain(&context, 0) != 0 || push(context) != 0 || host_alloc(&from, kBuffer, 1) != 0 ||
      alloc(&to, kBuffer) != 0) {
    give_up("the driver has no memory");
  }
  return seconds([&] {
    for (std::uint64_t done = 0; done < bytes; done += kBuffer) {
      copy(to, from, static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, bytes - done)), nullptr);
    }
    wait(nullptr);
  });
}

void print(const char* what, const Outcome& outcome, double least) {
  std::printf("%-34s %8.1f ms  %6.2f GB/s  %5.2f of the roof  pinned %4.1f MiB  %llu copies\n", what,
              outcome.seconds * 1e3, static_cast<double>(outcome.stats.bytes_wanted) / outcome.seconds * 1e-9,
              least / outcome.seconds, static_cast<double>(outcome.stats.staging_bytes) / kMiB,
              static_cast<unsigned long long>(outcome.stats.copies));
}

struct Arguments {
  const char* file = nullptr;
  const char* fake = nullptr;
  int rounds = 5;
};

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--fake" && i + 1 < argc) {
      arguments.fake = argv[++i];
    } else if (word == "--rounds" && i + 1 < argc) {
      arguments.rounds = std::atoi(argv[++i]);
    } else {
      arguments.file = argv[i];
    }
  }
  if (arguments.file == nullptr) give_up("usage: bench_device FILE [--fake LIBRARY] [--rounds N]");
  return arguments;
}

void keep_best(Outcome& best, const Outcome& outcome) {
  if (outcome.seconds < best.seconds) best = outcome;
}

void measure_fake(const st_file* file, const Arguments& arguments, void* host) {
  void* const library = dlopen(arguments.fake, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(dlerror());
  const auto pace = reinterpret_cast<void (*)(double, int)>(dlsym(library, "fake_pace"));
  st_device_options options = ST_INIT(st_device_options);
  options.library = arguments.fake;
  constexpr std::array kShares{0.5, 1.0, 2.0};
  Outcome disk;
  std::array<Outcome, kShares.size()> best;
  for (int i = 0; i < arguments.rounds; ++i) keep_best(disk, load(file, nullptr, ST_CACHE_AROUND, host));
  const auto bytes = static_cast<double>(disk.stats.bytes_wanted);
  const double speed = bytes / disk.seconds;
  for (int i = 0; i < arguments.rounds; ++i) {
    keep_best(disk, load(file, nullptr, ST_CACHE_AROUND, host));
    for (std::size_t k = 0; k < kShares.size(); ++k) {
      pace(speed * kShares[k], 0);
      keep_best(best[k], load(file, &options, ST_CACHE_AROUND, nullptr));
    }
  }
  print("disk to host memory", disk, disk.seconds);
  for (std::size_t k = 0; k < kShares.size(); ++k) {
    const std::string what = "fake device at " + std::to_string(kShares[k]).substr(0, 3) + " of the disk";
    print(what.c_str(), best[k], std::max(disk.seconds, bytes / (speed * kShares[k])));
  }
}

void measure_gpu(const st_file* file, const Arguments& arguments, void* host) {
  st_error error = ST_INIT(st_error);
  st_device* device = nullptr;
  const st_status status = st_device_open_cuda(nullptr, &device, &error);
  st_device_free(device);
  if (status != ST_OK) {
    std::printf("no GPU: %s\n", error.message);
    return;
  }
  const st_device_options options = ST_INIT(st_device_options);
  Outcome disk;
  Outcome cold;
  Outcome cached;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < arguments.rounds; ++i) {
    keep_best(disk, load(file, nullptr, ST_CACHE_AROUND, host));
    keep_best(cold, load(file, &options, ST_CACHE_AROUND, nullptr));
    load(file, nullptr, ST_CACHE_THROUGH, host);
    keep_best(cached, load(file, &options, ST_CACHE_AUTO, nullptr));
    least = std::min(least, roof(disk.stats.bytes_wanted));
  }
  print("disk to host memory", disk, disk.seconds);
  print("disk to GPU", cold, std::max(disk.seconds, least));
  print("page cache to GPU", cached, least);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = read_arguments(argc, argv);
  st_error error = ST_INIT(st_error);
  st_file* file = nullptr;
  check(st_open(arguments.file, nullptr, &file, &error), error);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < st_count_tensors(file); ++i) bytes += st_tensor_bytes(st_get_tensor_at(file, i));
  void* host = nullptr;
  check(st_buffer_new(bytes, 0, 0, &host, &error), error);
  if (arguments.fake != nullptr) {
    measure_fake(file, arguments, host);
  } else {
    measure_gpu(file, arguments, host);
  }
  st_buffer_free(host);
  st_free(file);
  return 0;
}
