// The memory pool: concurrent allocation from several threads, and when memory is freed.
// SPDX-License-Identifier: Apache-2.0
#include "core/memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace st::core::memory_test {
namespace {

// While this resource allocates the pool's first block, another thread allocates from the pool.
class BusyMemory final : public std::pmr::memory_resource {
 public:
  void ask_meanwhile(Pool& pool) {
    ask_ = [this, &pool] {
      if (!other_.joinable()) other_ = std::thread([&pool] { static_cast<void>(pool.allocate(8)); });
    };
  }
  void join() { other_.join(); }
  int most_at_once() const { return most_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const int inside = ++inside_;
    if (inside > most_) most_ = inside;
    if (inside == 1) ask_();
    for (int i = 0; i < 50 && inside_ == 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    void* const memory = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    --inside_;
    return memory;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::function<void()> ask_;
  std::thread other_;
  std::atomic<int> inside_{0};
  std::atomic<int> most_{0};
};

TEST(Pool, OneThreadAtATimeTakesFromIt) {
  BusyMemory memory;
  Pool pool(4096, &memory);
  memory.ask_meanwhile(pool);
  EXPECT_NE(pool.allocate(8), nullptr);
  memory.join();
  EXPECT_EQ(memory.most_at_once(), 1);
}

class CountedMemory final : public std::pmr::memory_resource {
 public:
  std::size_t bytes() const { return bytes_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    bytes_ += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    bytes_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::size_t bytes_ = 0;
};

TEST(Pool, GivesLargeObjectsBackAtOnceAndTheOthersInTheEnd) {
  constexpr std::size_t kLarge = std::size_t{1} << 20;
  CountedMemory memory;
  for (const std::size_t bytes : {kLarge - 1, kLarge, kLarge + 1}) {
    Pool pool(4096, &memory);
    pool.deallocate(pool.allocate(bytes), bytes);
    EXPECT_EQ(memory.bytes() == 0, bytes >= kLarge) << bytes;
  }
  EXPECT_EQ(memory.bytes(), 0U);
}

// Parsers read a few bytes after the text.
TEST(PaddedBuffer, EndsWithZeros) {
  std::array<char, 1024> room;
  room.fill('x');
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size(), std::pmr::null_memory_resource());
  const PaddedBuffer text(3, &memory);
  EXPECT_EQ(std::string(text.data() + 3, format::kPadding), std::string(format::kPadding, '\0'));
}

}  // namespace
}  // namespace st::core::memory_test
