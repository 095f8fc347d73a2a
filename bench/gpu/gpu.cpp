// How long does it take to load a checkpoint to a GPU, compared with copies of as many bytes from pinned memory?
//
// Writes a checkpoint, loads it in several ways, and compares every byte that the GPU then has. Prints a line per way,
// with tabs: name, bytes, seconds, seconds of the copies, pinned bytes, seconds until the first tensor. A line "skipped"
// says why there is none. run.py makes the table of them.
// usage: bench_gpu cuda|hip LIBRARY FILE MEBIBYTES [--rounds N] [--wrong-byte]
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <safetensors/safetensors.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint.hpp"
#include "driver_calls.hpp"

namespace {

using st::test::DeviceAddress;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kBuffer = 256 * kMiB;  // pinned, for the copies that are timed
constexpr std::uint64_t kSpare = 512 * kMiB;

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void check(st_status status, const st_error& error) {
  if (status != ST_OK) throw std::runtime_error(error.message);
}

struct Arguments {
  bool is_hip = false;
  std::string library;
  std::string file;
  std::uint64_t bytes = 0;
  int rounds = 3;
  bool wrong_byte = false;
};

// The first GPU, called without the library, for what it is compared with.
class Gpu {
 public:
  explicit Gpu(const Arguments& arguments)
      : is_hip_(arguments.is_hip), calls_(st::test::load_driver(arguments.library.c_str(), arguments.is_hip)) {
    expect(is_hip_ ? calls_.hip_init(0) : calls_.cuda_init(0), "the start of the driver");
    if (!is_hip_) {
      expect(calls_.cuda_retain_context(&context_, 0), "a context");
      expect(calls_.cuda_push_context(context_), "a context");
    }
    expect(calls_.stream_create(&stream_, 1), "a stream");
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    if (pinned_ != nullptr) calls_.host_free(pinned_);
    calls_.stream_destroy(stream_);
    void* own = nullptr;
    if (is_hip_) return;
    calls_.cuda_pop_context(&own);
    calls_.cuda_release_context(0);
  }

  std::uint64_t available() const {
    std::size_t bytes = 0;
    std::size_t total = 0;
    expect(calls_.mem_info(&bytes, &total), "free memory");
    return bytes;
  }

  // Nothing brings bytes to the GPU faster. Pinning is not timed.
  double time_copies(DeviceAddress to, std::uint64_t bytes) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, bytes));
    if (pinned_ == nullptr) {
      expect(calls_.host_alloc(&pinned_, size, 1), "pinned memory");
      std::memset(pinned_, 1, size);
    }
    const Clock::time_point begin = Clock::now();
    for (std::uint64_t done = 0; done < bytes; done += size) {
      const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(size, bytes - done));
      expect(calls_.copy(to + static_cast<DeviceAddress>(done), pinned_, part, stream_), "a copy");
    }
    expect(calls_.stream_synchronize(stream_), "a copy");
    return since(begin);
  }

  void clear(DeviceAddress memory, std::uint64_t bytes) const {
    expect(calls_.fill(memory, 0, static_cast<std::size_t>(bytes), stream_), "a fill");
    expect(calls_.stream_synchronize(stream_), "a fill");
  }

  void compare(DeviceAddress memory, std::uint64_t bytes) const {
    std::vector<std::byte> got(static_cast<std::size_t>(std::min(bytes, 16 * kMiB)));
    std::vector<std::byte> expected(got.size());
    for (std::uint64_t done = 0; done < bytes; done += got.size()) {
      const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(got.size(), bytes - done));
      expect(calls_.copy_back(got.data(), memory + static_cast<DeviceAddress>(done), part), "a copy back");
      bench::expected_bytes(done, std::span(expected).first(part));
      if (std::memcmp(got.data(), expected.data(), part) == 0) continue;
      const auto wrong = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
      throw std::runtime_error("byte " + std::to_string(done + static_cast<std::uint64_t>(wrong)) +
                               " of the data is wrong on the GPU");
    }
  }

 private:
  void expect(int code, const char* what) const {
    if (code != 0)
      throw std::runtime_error(std::string("the driver's error for ") + what + ": " + std::to_string(code));
  }

  bool is_hip_;
  st::test::DriverCalls calls_;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  void* pinned_ = nullptr;
};

st_device* open_device(const Arguments& arguments) {
  st_device_options options = ST_INIT(st_device_options);
  options.library = arguments.library.c_str();
  st_error error = ST_INIT(st_error);
  st_device* device = nullptr;
  check((arguments.is_hip ? st_device_open_hip : st_device_open_cuda)(&options, &device, &error), error);
  return device;
}

std::uint64_t data_bytes(const st_file* file) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < st_count_tensors(file); ++i) bytes += st_tensor_bytes(st_get_tensor_at(file, i));
  return bytes;
}

struct Outcome {
  double seconds = std::numeric_limits<double>::infinity();
  double first = 0;  // seconds until the GPU has a tensor
  std::uint64_t pinned = 0;
};

struct First {
  Clock::time_point begin;
  std::atomic<bool> seen{false};
  double seconds = 0;
};

// Opens the file and brings every tensor to `memory`. Opens the device, too, if there is none; then pinning counts.
Outcome load(const Arguments& arguments, st_device* device, st_cache cache, void* memory) {
  First first;
  first.begin = Clock::now();
  st_error error = ST_INIT(st_error);
  st_device* const own = device == nullptr ? open_device(arguments) : nullptr;
  st_device* const used = device == nullptr ? own : device;
  st_file* file = nullptr;
  check(st_open(arguments.file.c_str(), nullptr, &file, &error), error);
  st_plan* plan = nullptr;
  check(st_plan_new(file, &plan, &error), error);
  auto* at = static_cast<char*>(memory);
  for (std::size_t i = 0; i < st_count_tensors(file); ++i) {
    const st_tensor* const tensor = st_get_tensor_at(file, i);
    const auto size = static_cast<std::size_t>(st_tensor_bytes(tensor));
    check(st_plan_add_device(plan, used, nullptr, tensor, nullptr, nullptr, nullptr, at, size, &error), error);
    at += size;
  }
  st_read_options options = ST_INIT(st_read_options);
  options.cache = cache;
  options.ctx = &first;
  options.ready = [](void* ctx, std::size_t) {
    auto& self = *static_cast<First*>(ctx);
    if (!self.seen.exchange(true)) self.seconds = since(self.begin);
  };
  check(st_plan_run(plan, &options, &error), error);
  Outcome outcome;
  outcome.seconds = since(first.begin);
  outcome.first = first.seconds;
  st_plan_stats stats = ST_INIT(st_plan_stats);
  st_plan_get_stats(plan, &stats);
  outcome.pinned = stats.staging_bytes;
  st_plan_free(plan);
  st_free(file);
  st_device_free(own);
  return outcome;
}

struct Way {
  const char* name;
  bool opens_device;
  st_cache cache;
};

constexpr Way kWays[] = {{"page cache, device just opened", true, ST_CACHE_AUTO},
                         {"page cache, device open", false, ST_CACHE_AUTO},
                         {"disk, device open", false, ST_CACHE_AROUND}};

void measure(const Arguments& arguments, Gpu& gpu) {
  st_error error = ST_INIT(st_error);
  st_file* file = nullptr;
  check(st_open(arguments.file.c_str(), nullptr, &file, &error), error);
  const std::uint64_t bytes = data_bytes(file);
  st_device* const device = open_device(arguments);
  void* memory = nullptr;
  check(st_device_alloc(device, bytes, &memory, &error), error);
  const auto address = reinterpret_cast<DeviceAddress>(memory);
  Outcome best[std::size(kWays)];
  double copies = std::numeric_limits<double>::infinity();
  gpu.clear(address, bytes);  // so that the first copies do not find new memory
  for (int round = 0; round < arguments.rounds; ++round) {
    copies = std::min(copies, gpu.time_copies(address, bytes));
    for (std::size_t i = 0; i < std::size(kWays); ++i) {
      if (round == 0) gpu.clear(address, bytes);
      const Outcome outcome = load(arguments, kWays[i].opens_device ? nullptr : device, kWays[i].cache, memory);
      if (round == 0) gpu.compare(address, bytes);
      if (outcome.seconds < best[i].seconds) best[i] = outcome;
    }
  }
  for (std::size_t i = 0; i < std::size(kWays); ++i) {
    std::printf("%s\t%llu\t%.9f\t%.9f\t%llu\t%.9f\n", kWays[i].name, static_cast<unsigned long long>(bytes),
                best[i].seconds, copies, static_cast<unsigned long long>(best[i].pinned), best[i].first);
  }
  st_device_release(device, memory);
  st_device_free(device);
  st_free(file);
}

// Gives a fake driver a speed. Its copies are made.
void set_pace(const std::string& library) {
  void* const driver = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto pace = driver == nullptr ? nullptr : reinterpret_cast<void (*)(double, int)>(dlsym(driver, "fake_pace"));
  if (pace != nullptr) pace(4e9, 1);
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  if (argc < 5)
    throw std::invalid_argument("usage: bench_gpu cuda|hip LIBRARY FILE MEBIBYTES [--rounds N] [--wrong-byte]");
  arguments.is_hip = std::string(argv[1]) == "hip";
  arguments.library = argv[2];
  arguments.file = argv[3];
  arguments.bytes = std::strtoull(argv[4], nullptr, 10) * kMiB;
  for (int i = 5; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--wrong-byte") arguments.wrong_byte = true;
    if (word == "--rounds" && i + 1 < argc) arguments.rounds = std::max(std::atoi(argv[++i]), 1);
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments arguments = read_arguments(argc, argv);
  set_pace(arguments.library);
  Gpu gpu(arguments);
  if (const std::uint64_t available = gpu.available(); available < arguments.bytes + kSpare) {
    std::printf("skipped\tthe GPU has %llu MiB of free memory\n", static_cast<unsigned long long>(available / kMiB));
    return 0;
  }
  bench::write_checkpoint(arguments.file, arguments.bytes);
  if (arguments.wrong_byte) bench::spoil(arguments.file, arguments.bytes / 2);
  measure(arguments, gpu);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_gpu: %s\n", error.what());
  return 1;
}
