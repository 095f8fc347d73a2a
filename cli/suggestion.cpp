// SPDX-License-Identifier: Apache-2.0
#include "suggestion.hpp"

#include <algorithm>
#include <numeric>

#include "formatted.hpp"
#include "text.hpp"

namespace cli {
namespace {

// The fewest changes that make one word of the other: a byte more, less or another, or two neighbours swapped. Returns
// a number above `most` if there are more than that.
std::size_t distance(std::string_view a, std::string_view b, std::size_t most) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > most) return most + 1;
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + other});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    if (*std::min_element(now.begin(), now.end()) > most) return most + 1;
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words) {
  constexpr std::size_t kLongest = 300;  // longer names take too long
  if (typed.empty() || typed.size() > kLongest) return {};
  std::size_t nearest = std::clamp<std::size_t>(typed.size() / 3, 1, 4) + 1;
  const std::string* found = nullptr;
  for (const std::string& word : words) {
    const std::size_t d = distance(typed, word, nearest - 1);
    if (d >= nearest) continue;
    nearest = d;
    found = &word;
  }
  return found == nullptr ? "" : formatted(", did you mean '{}'?", printable(*found));
}

}  // namespace cli
