// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <cmath>
#include <cstdio>

#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(500);  // shorter work shows no bar
constexpr auto kFrame = std::chrono::milliseconds(100);
constexpr std::uint64_t kBarWidth = 30;

std::string time_left(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 60) return formatted("{} s left", whole);
  if (whole < 3600) return formatted("{}:{:02} min left", whole / 60, whole % 60);
  return formatted("{}:{:02} h left", whole / 3600, whole / 60 % 60);
}

void draw(const std::string& line) {
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(!what_.empty() && error_is_terminal()) {}

Progress::~Progress() {
  if (visible_) draw("\r\x1b[K");
}

void Progress::show(std::uint64_t done, std::uint64_t total) {
  const Clock::time_point now = Clock::now();
  if (!terminal_ || now - begun_ < kPatience || now - drawn_ < kFrame || total == 0) return;
  drawn_ = now;
  visible_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<std::uint64_t>(share * kBarWidth);
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(done) / seconds);
  std::string numbers =
      formatted(" {:3.0f}% {} of {}, {}/s", share * 100, human_bytes(done), human_bytes(total), human_bytes(rate));
  if (share > 0) numbers += ", " + time_left(seconds / share - seconds);
  const std::string bar = formatted(" [{:=<{}}{:<{}}]", "", filled, "", kBarWidth - filled);
  // If the line is too long, drop the bar, and then truncate the line. A wrapped line would scroll the terminal.
  const std::size_t room = error_columns() - 1;
  std::string line = what_ + bar + numbers;
  if (width_of(line) > room) line = what_ + numbers;
  if (width_of(line) > room) line = numbers.substr(1, room);
  draw("\r" + line + "\x1b[K");
}

}  // namespace cli
