// Present names are found, absent ones are not, and duplicates are distinguished from similar names.
// SPDX-License-Identifier: Apache-2.0
#include "format/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace st::format::table_test {
namespace {

struct Item {
  std::string text;
  std::string_view name() const { return text; }
};

class Indexed {
 public:
  Indexed(std::vector<Item> items, std::uint64_t seed) : items_(std::move(items)) {
    index_.reset(items_.size(), seed);
    for (std::uint32_t i = 0; i < items_.size(); ++i) earlier_.push_back(index_.insert(items_.data(), i));
  }
  std::uint32_t find(std::string_view name) const { return index_.find(items_.data(), name); }
  std::uint32_t earlier(std::size_t i) const { return earlier_[i]; }

 private:
  std::vector<Item> items_;
  NameIndex<Item> index_{std::pmr::new_delete_resource()};
  std::vector<std::uint32_t> earlier_;
};

constexpr std::uint32_t kNone = NameIndex<Item>::kNone;

TEST(NameIndex, EmptyFindsNothing) {
  const NameIndex<Item> never_filled(std::pmr::new_delete_resource());
  EXPECT_EQ(never_filled.find(nullptr, "a"), kNone);
  EXPECT_EQ(Indexed({}, 1).find(""), kNone);
}

TEST(NameIndex, EverySizeIsFoundWithEverySeed) {
  for (std::size_t count = 1; count < 300; ++count) {
    std::vector<Item> items;
    for (std::size_t i = 0; i < count; ++i) items.push_back({"h." + std::to_string(i) + ".weight"});
    for (const std::uint64_t seed : {0ULL, 1ULL, 0xFFFFFFFFFFFFFFFFULL}) {
      const Indexed index(items, seed);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(index.earlier(i), kNone);
        ASSERT_EQ(index.find(items[i].text), i);
        ASSERT_EQ(index.find(items[i].text + "s"), kNone);
        ASSERT_EQ(index.find(std::string_view(items[i].text).substr(1)), kNone);
      }
    }
  }
}

TEST(NameIndex, IsTheSameWhenFilledInParts) {
  for (std::size_t count = 1; count < 200; count += 1 + count / 7) {
    std::vector<Item> items;
    for (std::size_t i = 0; i < count; ++i) items.push_back({"h." + std::to_string(i)});
    for (std::size_t i = 0; i < count; i += 5) items.push_back({"h." + std::to_string(i)});
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      NameIndex<Item> index(std::pmr::new_delete_resource());
      index.make_room(items.size(), seed);
      std::vector<std::uint32_t> left_over;
      for (std::size_t step = 0; step < NameIndex<Item>::kParts; ++step) {
        const std::size_t p = seed % 2 == 0 ? step : NameIndex<Item>::kParts - 1 - step;  // in both orders
        NameIndex<Item>::Part part = index.part(p);
        for (std::uint32_t i = 0; i < items.size(); ++i) {
          const std::uint32_t hash = index.hash(items[i].text);
          if (index.part_of(hash) == p && !part.insert(hash, i)) left_over.push_back(i);
        }
      }
      std::sort(left_over.begin(), left_over.end());
      for (const std::uint32_t i : left_over) {
        const std::uint32_t earlier = index.insert_hashed(items.data(), i, index.hash(items[i].text));
        ASSERT_EQ(earlier, i < count ? kNone : 5 * (i - count));
      }
      for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(index.find(items.data(), items[i].text), i);
      ASSERT_EQ(index.find(items.data(), "h."), kNone);
    }
  }
}

TEST(NameIndex, ANameThatComesTwiceTellsWhoWasFirst) {
  const Indexed index({{"a"}, {"b"}, {"a"}, {std::string("a\0", 2)}, {""}, {"b"}, {""}}, 3);
  EXPECT_EQ(index.earlier(0), kNone);
  EXPECT_EQ(index.earlier(2), 0U);
  EXPECT_EQ(index.earlier(3), kNone);
  EXPECT_EQ(index.earlier(4), kNone);
  EXPECT_EQ(index.earlier(5), 1U);
  EXPECT_EQ(index.earlier(6), 4U);
  EXPECT_EQ(index.find(std::string_view("a\0", 2)), 3U);
}

// Names of equal length with a long common prefix or suffix, like the names of a model.
TEST(NameIndex, AHundredThousandNamesAlike) {
  std::vector<Item> items;
  const std::string alike(100, 'x');
  for (std::size_t i = 0; i < 100'000; ++i) items.push_back({alike + std::to_string(1'000'000 + i) + alike});
  const Indexed index(items, 42);
  for (std::size_t i = 0; i < items.size(); ++i) ASSERT_EQ(index.find(items[i].text), i);
  EXPECT_EQ(index.find(alike), kNone);
}

}  // namespace
}  // namespace st::format::table_test
