// Finding a tensor by name: open addressing over (hash, number) pairs of 32 bits each.
//
// The hash is keyed with a seed that the writer of a file cannot know, so names made to collide do not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string_view>
#include <vector>

namespace st {

struct Tensor;

class NameIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit NameIndex(std::pmr::memory_resource* memory) : slots_(memory) {}

  // Makes room for `count` names; forgets what was there.
  void reset(std::size_t count, std::uint64_t seed);

  // The number of the tensor that already has this name, or kNone after putting `number` under it.
  std::uint32_t insert(const Tensor* tensors, std::uint32_t number);

  std::uint32_t find(const Tensor* tensors, std::string_view name) const;

 private:
  struct Slot {
    std::uint32_t hash;
    std::uint32_t number;  // kNone: free
  };
  std::uint32_t hash(std::string_view name) const;
  std::size_t first_slot(std::uint32_t hash) const;

  std::pmr::vector<Slot> slots_;
  std::uint64_t seed_ = 0;
};

}  // namespace st
