// Reports of the bytes written: one thread at a time, and never a smaller number than before.
// SPDX-License-Identifier: Apache-2.0
#include "core/write_progress.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.hpp"

namespace st::core::write_progress_test {
namespace {

struct Reports {
  std::atomic<int> inside{0};
  std::atomic<int> calls{0};
  bool together = false;  // two threads were inside at once
  bool fell = false;
  std::uint64_t last = 0;

  static std::int32_t report(void* ctx, std::uint64_t done, std::uint64_t) {
    auto& self = *static_cast<Reports*>(ctx);
    if (++self.inside != 1) self.together = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(15));  // the next report is due while this one runs
    if (done < self.last) self.fell = true;
    self.last = done;
    --self.inside;
    ++self.calls;
    return 0;
  }
};

TEST(WriteProgress, IsNeverReportedFromTwoThreadsAtOnce) {
  Reports reports;
  WriteProgress progress;
  progress.start({&reports, Reports::report}, 1, UINT64_MAX);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (reports.calls < 5) progress.add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(reports.together);
  EXPECT_FALSE(reports.fell);
  EXPECT_GT(reports.last, 1U);
}

TEST(WriteProgress, IsReportedWithTheFirstBytesAndAtTheEnd) {
  std::vector<std::uint64_t> seen;
  WriteProgress progress;
  const auto report = [](void* ctx, std::uint64_t done, std::uint64_t total) -> std::int32_t {
    static_cast<std::vector<std::uint64_t>*>(ctx)->push_back(done);
    return total == 100 ? 0 : 1;
  };
  progress.start({&seen, report}, 8, 100);
  EXPECT_TRUE(seen.empty());
  progress.add(2);
  EXPECT_EQ(seen, std::vector<std::uint64_t>{10});
  for (int i = 0; i < 1000; ++i) progress.add(0);
  EXPECT_LT(seen.size(), 1000U);  // not of every piece
  progress.finish();
  EXPECT_EQ(seen.back(), 100U);

  progress.start({&seen, report}, 8, 99);  // as after a begin that failed
  EXPECT_THROW(progress.add(2), Error);
  EXPECT_EQ(seen.back(), 10U);
}

TEST(WriteProgress, IsNotReportedAgainAfterItWasCancelled) {
  int calls = 0;
  WriteProgress progress;
  const auto cancel = [](void* ctx, std::uint64_t, std::uint64_t) -> std::int32_t { return ++*static_cast<int*>(ctx); };
  progress.start({&calls, cancel}, 8, 100);
  for (const char* const expected : {"cancelled after 10 of 100 bytes", "cancelled before 12 bytes were written"}) {
    try {
      progress.add(2);
      ADD_FAILURE() << "not cancelled";
    } catch (const Error& error) {
      EXPECT_EQ(error.message, expected);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(15));  // the next report would be due
  }
  EXPECT_EQ(calls, 1);
  progress.start({&calls, [](void*, std::uint64_t, std::uint64_t) -> std::int32_t { return 0; }}, 8, 100);
  EXPECT_NO_THROW(progress.add(2));
}

TEST(WriteProgress, WithoutACallbackNothingIsCounted) {
  WriteProgress progress;
  progress.start({}, 8, 100);
  EXPECT_FALSE(progress.wanted());
  progress.add(UINT64_MAX);
  progress.finish();
}

}  // namespace
}  // namespace st::core::write_progress_test
