// SPDX-License-Identifier: Apache-2.0
#include "core/name_order.hpp"

#include <algorithm>
#include <vector>

#include "base/compiler.hpp"

namespace st::core {

namespace {

constexpr std::size_t kFew = 12;   // a group of at most this size is sorted by comparing whole names
constexpr std::size_t kAhead = 8;  // names are prefetched this far ahead

struct Item {
  std::uint64_t key = 0;  // the next eight bytes of the name, zeros after its end
  std::string_view name;
  std::uint32_t number = 0;
};

bool key_before(const Item& a, const Item& b) { return a.key < b.key; }
bool name_before(const Item& a, const Item& b) { return a.name < b.name; }

std::size_t common_bytes(std::span<const Item> items, std::size_t from) {
  std::string_view common = items.front().name;
  for (std::size_t i = 1; i < items.size(); ++i) {
    if (i + kAhead < items.size()) prefetch(items[i + kAhead].name.data() + from);
    const std::string_view name = items[i].name;
    std::size_t equal = std::min({from, common.size(), name.size()});
    while (equal < common.size() && equal < name.size() && common[equal] == name[equal]) ++equal;
    common = common.substr(0, equal);
  }
  return common.size();
}

std::uint64_t key_at(std::string_view name, std::size_t from) {
  std::uint64_t key = 0;
  for (std::size_t i = from; i < from + 8; ++i)
    key = key << 8 | (i < name.size() ? static_cast<unsigned char>(name[i]) : 0U);
  return key;
}

// Groups are kept in a list, because the depth of a recursion would grow with the length of the names.
struct Group {
  std::span<Item> items;
  std::size_t depth = 0;  // length of the common beginning
};

void sort_by_whole_name(std::span<Item> items) { std::sort(items.begin(), items.end(), name_before); }

void sort_all(std::span<Item> items) {
  std::vector<Group> groups{{items, 0}};
  while (!groups.empty()) {
    Group group = groups.back();
    groups.pop_back();
    if (group.items.size() <= kFew) {
      sort_by_whole_name(group.items);
      continue;
    }
    group.depth = common_bytes(group.items, group.depth);
    for (Item& item : group.items) item.key = key_at(item.name, group.depth);
    std::sort(group.items.begin(), group.items.end(), key_before);
    // All have the same eight bytes, or one name ends there and the others go on with NULs.
    if (group.items.front().key == group.items.back().key) {
      sort_by_whole_name(group.items);
      continue;
    }
    for (auto from = group.items.begin(); from != group.items.end();) {
      const auto to = std::upper_bound(from, group.items.end(), *from, key_before);
      if (to - from > 1) groups.push_back({{from, to}, group.depth});
      from = to;
    }
  }
}

}  // namespace

void sort_by_name(std::span<std::uint32_t> numbers, const std::function<std::string_view(std::uint32_t)>& name_of) {
  std::vector<Item> items(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) items[i] = {0, name_of(numbers[i]), numbers[i]};
  if (!std::is_sorted(items.begin(), items.end(), name_before)) sort_all(items);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = items[i].number;
}

}  // namespace st::core
