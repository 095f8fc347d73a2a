// Each driver call fails once while a plan fills two devices and the host, with slices and with bytes for several
// destinations. Complete destinations are right, nothing leaks, and the next run reads everything.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <random>

#include "driver.hpp"
#include "model.hpp"

namespace st::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kMemory = 2 * kMiB;
constexpr std::int64_t kColumns = 11;
constexpr int kCode = 4242;  // no number of a driver's

// A plan of a dozen destinations: whole tensors, rows and columns, some of which overlap in the file.
class RandomPlan {
 public:
  RandomPlan(const Driver& driver, const Model& model, std::uint64_t seed)
      : devices_{driver.opened(0, 4 * kMiB), driver.opened(1, 4 * kMiB)},
        first_(driver, devices_[0].get(), kMemory),
        second_(driver, devices_[1].get(), kMemory),
        host_(kMemory),
        plan_(model.plan()) {
    std::mt19937_64 random(seed);
    std::array<std::size_t, 3> used{};
    for (int i = 0; i < 12; ++i) {
      const std::size_t place = random() % 3;
      used[place] += random() % 2;
      const st_tensor* const tensor = model.tensor(random() % model.count());
      const std::size_t kind = random() % 3;
      used[place] += add(tensor, kind, place, used[place]);
    }
  }

  st_status run(unsigned threads, st_error* err) const {
    st_read_options options = ST_INIT(st_read_options);
    options.threads = threads;
    options.chunk_bytes = 64U << 10;
    return st_plan_run(plan_.get(), &options, err);
  }

  // Checks the complete destinations. If required, all must be complete.
  void expect_bytes(bool all, const std::string& when) const {
    const std::vector<std::byte> got[] = {first_.contents(), second_.contents(), host_};
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const Wanted& one = wanted_[i];
      const bool complete = st_plan_is_complete(plan_.get(), i) != 0;
      EXPECT_TRUE(complete || !all) << when << ", destination " << i;
      if (!complete) continue;
      EXPECT_EQ(std::memcmp(got[one.place].data() + one.at, one.bytes.data(), one.bytes.size()), 0)
          << when << ", destination " << i;
    }
  }

 private:
  struct Wanted {
    std::size_t place, at;
    std::vector<char> bytes;
  };

  // Returns how many bytes were added.
  std::size_t add(const st_tensor* tensor, std::size_t kind, std::size_t place, std::size_t at) {
    constexpr std::int64_t kBegins[][2] = {{0, 0}, {1000, 0}, {0, 2}};
    constexpr std::int64_t kEnds[][2] = {{INT64_MAX, INT64_MAX}, {6000, kColumns}, {INT64_MAX, 5}};
    const std::int64_t* const begin = kBegins[kind];
    const std::int64_t* const end = kEnds[kind];
    std::uint64_t size = 0;
    EXPECT_EQ(st_tensor_slice(tensor, begin, end, nullptr, nullptr, &size, nullptr, nullptr), ST_OK);
    Wanted wanted{place, at, std::vector<char>(static_cast<std::size_t>(size))};
    EXPECT_EQ(st_tensor_read_slice(tensor, begin, end, nullptr, wanted.bytes.data(), wanted.bytes.size(), nullptr),
              ST_OK);
    if (place == 2) {
      EXPECT_EQ(st_plan_add(plan_.get(), tensor, begin, end, nullptr, host_.data() + at, wanted.bytes.size(), nullptr),
                ST_OK);
    } else {
      EXPECT_EQ(st_plan_add_device(plan_.get(), devices_[place].get(), nullptr, tensor, begin, end, nullptr,
                                   (place == 0 ? first_ : second_).at(at), wanted.bytes.size(), nullptr),
                ST_OK);
    }
    wanted_.push_back(std::move(wanted));
    return wanted_.back().bytes.size();
  }

  const DevicePtr devices_[2];
  const DeviceMemory first_, second_;
  std::vector<std::byte> host_;
  const PlanPtr plan_;
  std::vector<Wanted> wanted_;
};

class SharedFailures : public testing::TestWithParam<const Driver*> {
 protected:
  SharedFailures() { driver.reset(); }

  // Runs the plan with the failure, and then without it. Returns whether anything failed.
  bool run_twice(std::uint64_t seed, unsigned threads, void (*fail)(const Driver&, std::int64_t), std::int64_t nth,
                 int code) {
    driver.reset();
    bool reached = false;
    {
      const RandomPlan plan(driver, model, seed);
      fail(driver, nth);
      st_error err = ST_INIT(st_error);
      const st_status status = plan.run(threads, &err);
      reached = driver.failures() != 0;
      const std::string when = "call " + std::to_string(nth) + " of plan " + std::to_string(seed) + ": " + err.message;
      EXPECT_EQ(driver.in_flight(), 0) << when;
      EXPECT_TRUE(reached || status == ST_OK) << when;
      if (status != ST_OK) {
        EXPECT_EQ(status, ST_ERR_DEVICE) << when;
        EXPECT_EQ(err.os_error, code) << when;
        EXPECT_EQ(std::string(err.message).rfind("tensor 't", 0), 0U) << when;
      }
      plan.expect_bytes(status == ST_OK, when);
      EXPECT_EQ(driver.fault(), nullptr) << when;
      driver.reset();
      EXPECT_EQ(plan.run(threads, &err), ST_OK) << when << ", then " << err.message;
      plan.expect_bytes(true, when + ", and once more");
    }
    driver.expect_clean("call " + std::to_string(nth));
    return reached;
  }

  const Driver& driver = *GetParam();
  const Model model{std::vector<std::uint64_t>(4, 11 * 9001), kColumns};
};

INSTANTIATE_TEST_SUITE_P(Drivers, SharedFailures, testing::Values(&cuda(), &hip()),
                         [](const auto& one) { return one.param->name(); });

TEST_P(SharedFailures, EveryCallOfARunFailsOnce) {
  for (const unsigned threads : {1U, 3U}) {
    std::int64_t nth = 0;
    const auto fail = [](const Driver& one, std::int64_t n) { one.fail_call(n, kCode); };
    while (run_twice(threads, threads, fail, nth, kCode)) ++nth;
    EXPECT_GT(nth, 60) << "calls";
  }
}

TEST_P(SharedFailures, EveryCopyFailsOnceWhenItIsMade) {
  if (!driver.is_fake()) GTEST_SKIP() << "only a fake driver's copies fail after they are begun";
  for (const unsigned threads : {1U, 3U}) {
    std::int64_t nth = 0;
    const auto fail = [](const Driver& one, std::int64_t n) { one.fail_copy(n); };
    while (run_twice(threads, threads, fail, nth, 700)) ++nth;
    EXPECT_GT(nth, 4) << "copies";
  }
}

}  // namespace
}  // namespace st::test
