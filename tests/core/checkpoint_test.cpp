// An open file is immutable, so many threads may query, read, retain and free it at the same time.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "../format/file_front.hpp"
#include "base/error.hpp"
#include "io/source.hpp"

namespace st::core::checkpoint_test {
namespace {

constexpr std::size_t kTensors = 300;
constexpr std::size_t kThreads = 8;

std::string sample() {
  std::string header = R"({"__metadata__":{"k":"v"})";
  for (std::size_t i = 0; i < kTensors; ++i) {
    header += formatted(R"(,"t\u002e{}":{{"dtype":"U16","shape":[2],"data_offsets":[{},{}]}})", i, 4 * i, 4 * i + 4);
  }
  header += '}';
  std::string file = format::file_front(header);
  for (std::uint32_t i = 0; i < kTensors; ++i) file.append(reinterpret_cast<const char*>(&i), 4);
  return file;
}

CheckpointPtr open(const std::string& bytes, const OpenOptions& options = {}) {
  return Checkpoint::open(io::memory_source(bytes.data(), bytes.size(), nullptr, nullptr), options);
}

std::size_t faults_of_looking_at(const Checkpoint& file, const std::string& bytes) {
  std::size_t faults = 0;
  for (std::uint32_t i = 0; i < kTensors; ++i) {
    const Tensor* const tensor = file.tensor(formatted("t.{}", i));
    std::uint32_t value = 0;
    if (tensor == nullptr || tensor != file.tensor_at(i)) {
      ++faults;
      continue;
    }
    read(*tensor, &value);
    faults += value != i;
  }
  const char* const header = raw_header(file.shard(0));
  faults += header == nullptr || std::memcmp(header, bytes.data() + 8, file.shard(0).header.size()) != 0;
  faults += file.tensor("absent") != nullptr;
  faults += file.metadata("k") == nullptr || file.metadata("v") != nullptr;
  return faults;
}

TEST(Checkpoint, IsLookedAtFromManyThreadsAtOnce) {
  const std::string bytes = sample();
  for (int round = 0; round < 20; ++round) {  // the first caller creates the raw header
    const CheckpointPtr file = open(bytes);
    std::atomic<std::size_t> faults = 0;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&] { faults += faults_of_looking_at(*file, bytes); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(faults, 0U);
  }
}

TEST(Checkpoint, TheLastOfManyThreadsLetsGo) {
  const std::string bytes = sample();
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> released = 0;
    const auto count = [](void* ctx) { ++*static_cast<std::atomic<int>*>(ctx); };
    CheckpointPtr file = Checkpoint::open(io::memory_source(bytes.data(), bytes.size(), count, &released), {});
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      file->retain();
      threads.emplace_back([held = file.get()] {
        held->retain();
        held->release();
        held->release();
      });
    }
    file.reset();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(released, 1);
  }
}

// A memory resource that fails once. All earlier allocations must be freed.
struct Failing {
  std::ptrdiff_t bytes = 0;
  int calls = 0;
  int fails_at = 0;
};

TEST(Checkpoint, NothingIsLostWhenAnAllocationFails) {
  const std::string bytes = sample();
  Failing state;
  OpenOptions options;
  options.allocator.ctx = &state;
  options.allocator.alloc = [](void* ctx, std::size_t size, std::size_t align) -> void* {
    auto& own = *static_cast<Failing*>(ctx);
    if (++own.calls == own.fails_at) return nullptr;
    own.bytes += static_cast<std::ptrdiff_t>(size);
    return ::operator new (size, std::align_val_t{align});
  };
  options.allocator.free = [](void* ctx, void* ptr, std::size_t size, std::size_t align) {
    static_cast<Failing*>(ctx)->bytes -= static_cast<std::ptrdiff_t>(size);
    ::operator delete (ptr, std::align_val_t{align});
  };
  open(bytes, options);
  const int needed = state.calls;
  EXPECT_EQ(state.bytes, 0);
  for (int i = 1; i <= needed; ++i) {
    state = {0, 0, i};
    EXPECT_THROW(open(bytes, options), std::bad_alloc) << "allocation " << i;
    EXPECT_EQ(state.bytes, 0) << "allocation " << i;
    EXPECT_EQ(faults_of_looking_at(*open(bytes, options), bytes), 0U) << "again after allocation " << i;
    EXPECT_EQ(state.bytes, 0) << "allocation " << i;
  }
}

}  // namespace
}  // namespace st::core::checkpoint_test
