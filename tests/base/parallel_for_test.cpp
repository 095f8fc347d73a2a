// SPDX-License-Identifier: Apache-2.0
#include "base/parallel_for.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace st::parallel_for_test {
namespace {

TEST(ParallelFor, CallsEveryRoundOnce) {
  for (const unsigned threads : {0U, 1U, 2U, 8U, 100U}) {
    for (const std::size_t n : {0U, 1U, 7U, 1000U}) {
      std::vector<std::atomic<int>> calls(n);
      parallel_for(n, threads, [&](std::size_t i) { ++calls[i]; });
      for (const auto& count : calls) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ParallelFor, BeginsWithTheFirstRoundOnTheCallersThread) {
  std::thread::id first;
  parallel_for(50, 4, [&](std::size_t i) {
    if (i == 0) first = std::this_thread::get_id();
  });
  EXPECT_EQ(first, std::this_thread::get_id());
}

TEST(ParallelFor, RunsRoundsAtTheSameTime) {
  std::promise<void> other;
  bool met = false;
  parallel_for(2, 2, [&](std::size_t i) {
    if (i == 1) return other.set_value();
    met = other.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  });
  EXPECT_TRUE(met);
}

TEST(ParallelFor, HandsOneExceptionToTheCallerAndBeginsNoMore) {
  std::atomic<int> calls{0};
  const auto body = [&](std::size_t) {
    ++calls;
    throw std::runtime_error("first");
  };
  EXPECT_THROW(parallel_for(1'000'000, 4, body), std::runtime_error);
  EXPECT_LT(calls.load(), 1'000'000);
}

TEST(ParallelFor, UsesTheHostsPoolAndLetsNoExceptionThroughIt) {
  int called = 0;
  HostPool pool;
  pool.ctx = &called;
  pool.parallel_for = [](void* ctx, std::size_t n, void (*fn)(void*, std::size_t), void* arg) {
    ++*static_cast<int*>(ctx);
    for (std::size_t i = 0; i < n; ++i) fn(arg, i);  // would be undefined, were an exception to pass here
    ++*static_cast<int*>(ctx);
  };
  std::vector<int> order;
  parallel_for(5, 2, pool, [&](std::size_t i) { order.push_back(static_cast<int>(i)); });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_THROW(parallel_for(5, 2, pool, [](std::size_t) { throw 1; }), int);
  EXPECT_EQ(called, 4);
}

// A round in progress when another one fails may fail, too.
TEST(ParallelFor, TheFirstOfTwoExceptionsIsThrown) {
  static void (*round)(void*, std::size_t);
  static void* rounds;
  const HostPool pool{nullptr, [](void*, std::size_t, void (*fn)(void*, std::size_t), void* arg) {
                        round = fn;
                        rounds = arg;
                        fn(arg, 0);
                      }};
  const auto body = [](std::size_t i) {
    if (i == 0) round(rounds, 1);
    throw i;
  };
  try {
    parallel_for(2, 2, pool, body);
    FAIL() << "nothing is thrown";
  } catch (const std::size_t first) {
    EXPECT_EQ(first, 1U);
  }
}

TEST(ParallelFor, TheMachineHasAsManyThreadsAsTheSystemSays) {
  EXPECT_EQ(hardware_threads(), std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace st::parallel_for_test
