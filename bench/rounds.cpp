// Timing several pieces of work against each other, in turns.
//
// A turn is as many calls as take about five milliseconds: a single call of ten microseconds would measure the clock
// and whatever the turn before left in the caches. Minima are what the work costs; medians say how disturbed the
// machine was.
// SPDX-License-Identifier: Apache-2.0
#include "rounds.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <random>

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTurnNs = 5e6;

using Work = std::function<void()>;

double since(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

double nanoseconds(const Work& work, const Work& prepare, std::size_t calls) {
  double ns = 0;
  if (!prepare) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < calls; ++i) work();
    ns = since(start);
  }
  for (std::size_t i = 0; prepare && i < calls; ++i) {
    prepare();
    const auto start = Clock::now();
    work();
    ns += since(start);
  }
  return ns / static_cast<double>(calls);
}

std::size_t calls_in_a_turn(const Work& work, const Work& prepare) {
  work();  // the first call pays for code that is not yet in memory
  std::size_t calls = 1;
  double ns = nanoseconds(work, prepare, calls);
  while (ns * static_cast<double>(calls) < kTurnNs / 2) {
    calls *= 2;
    ns = nanoseconds(work, prepare, calls);
  }
  return std::max<std::size_t>(1, static_cast<std::size_t>(kTurnNs / ns));
}

Sample summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

}  // namespace

std::vector<Sample> alternate(const std::vector<Work>& work, int rounds, const Work& prepare) {
  std::vector<std::size_t> calls(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i]) calls[i] = calls_in_a_turn(work[i], prepare);
  }
  std::vector<std::vector<double>> times(work.size());
  std::vector<std::size_t> turns(work.size());
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  std::mt19937 any_order;
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(turns.begin(), turns.end(), any_order);
    for (const std::size_t i : turns) {
      if (work[i]) times[i].push_back(nanoseconds(work[i], prepare, calls[i]));
    }
  }
  std::vector<Sample> samples(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i]) samples[i] = summary(std::move(times[i]));
  }
  return samples;
}

}  // namespace bench
