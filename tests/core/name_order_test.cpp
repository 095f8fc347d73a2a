// Sorting names: the order is that of their bytes, whatever they have in common.
// SPDX-License-Identifier: Apache-2.0
#include "core/name_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../format/guarded_memory.hpp"

namespace st::core {
namespace {

void expect_sorted(std::vector<std::string> names) {
  std::vector<std::uint32_t> numbers(names.size());
  std::iota(numbers.begin(), numbers.end(), 0U);
  sort_by_name(numbers, [&](std::uint32_t number) -> std::string_view { return names[number]; });
  std::vector<std::string> sorted;
  for (const std::uint32_t number : numbers) sorted.push_back(names[number]);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(sorted, names);
}

TEST(NameOrder, of_nothing_and_of_one) {
  expect_sorted({});
  expect_sorted({""});
}

TEST(NameOrder, of_names_that_end_in_NULs) {
  std::vector<std::string> names;
  for (std::size_t n = 0; n < 40; ++n) {
    std::string name(1, 'a');
    name.append(n, '\0');
    names.push_back(name);
    names.push_back(name.append(1, '\xFF'));
  }
  std::shuffle(names.begin(), names.end(), std::mt19937(1));
  expect_sorted(names);
}

TEST(NameOrder, of_long_names_with_much_in_common) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::set<std::string> names;
    const char last = round % 2 == 0 ? 'b' : '\xFF';
    for (int i = 0; i < 300; ++i) {
      std::string name(random() % 3 * 100, 'x');
      for (std::size_t n = random() % 30; n > 0; --n) name += random() % 8 == 0 ? last : random() % 2 == 0 ? 'a' : '\0';
      names.insert(name);
    }
    std::vector<std::string> shuffled(names.begin(), names.end());
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    expect_sorted(shuffled);
  }
}

TEST(NameOrder, reads_nothing_behind_a_name) {
  const format::GuardedMemory memory(2);
  char* const first = memory.end() - 2;
  first[0] = first[1] = 'a';
  std::vector<std::string> longer;
  for (char c = 'z'; c >= 'a'; --c) longer.push_back(std::string("aa") + c);
  std::vector<std::uint32_t> numbers(longer.size() + 1);
  std::iota(numbers.begin(), numbers.end(), 0U);
  sort_by_name(numbers, [&](std::uint32_t number) -> std::string_view {
    return number == 0 ? std::string_view(first, 2) : longer[number - 1];
  });
  EXPECT_EQ(numbers.front(), 0U);
  EXPECT_EQ(numbers.back(), 1U);
}

}  // namespace
}  // namespace st::core
