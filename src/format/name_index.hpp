// Finding an item by name: open addressing over (hash, number) pairs of 32 bits each.
//
// The hash is keyed with a seed that the writer of a file cannot know, so names made to collide do not. A template
// because tensors and metadata are both looked up so; an Item has name().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "base/compiler.hpp"

namespace st::format {

std::uint64_t hash_name(std::string_view name, std::uint64_t seed);

template <class Item>
class NameIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit NameIndex(std::pmr::memory_resource* memory) : slots_(memory) {}

  // Makes room for `count` names and forgets what was there. Half of the slots stay free: probes are short.
  void reset(std::size_t count, std::uint64_t seed) {
    slots_.clear();
    slots_.resize(2 * count + 1, Slot{0, kNone});
    seed_ = seed;
  }

  // kNone after putting `number` under its name, or the number that has this name already.
  std::uint32_t insert(const Item* items, std::uint32_t number) {
    return insert_hashed(items, number, hash(items[number].name()));
  }

  bool empty() const { return slots_.empty(); }  // it was never given room

  std::uint32_t hash(std::string_view name) const { return hash(name, seed_); }
  static std::uint32_t hash(std::string_view name, std::uint64_t seed) {
    return static_cast<std::uint32_t>(hash_name(name, seed));
  }

  // Fetches the place of a name, which will be wanted soon.
  void prefetch(std::uint32_t hash) const {
    if (!slots_.empty()) prefetch_to_write(&slots_[first_slot(hash)]);
  }

  // The same as insert(), for an item whose hash is known, also from another index of the same seed.
  std::uint32_t insert_hashed(const Item* items, std::uint32_t number, std::uint32_t hash) {
    const std::string_view name = items[number].name();
    Slot& slot = slots_[probe(items, name, hash)];
    if (slot.number != kNone) return slot.number;
    slot = {hash, number};
    return kNone;
  }

  std::uint32_t find(const Item* items, std::string_view name) const {
    return slots_.empty() ? kNone : slots_[probe(items, name, hash(name))].number;
  }

  // ---- for several threads: make_room(), all parts at the same time, then insert_hashed() for what is left over

  static constexpr std::size_t kParts = 8;
  static std::size_t part_of(std::uint32_t hash) { return hash >> 29; }

  // Like reset(), but the slots of each part are emptied by part().
  void make_room(std::size_t count, std::uint64_t seed) {
    slots_.clear();
    slots_.resize((2 * count / kParts + 1) * kParts);  // so that no slot belongs to two parts
    seed_ = seed;
  }

  class Part {
   public:
    // For a hash of this part. Returns false where only insert_hashed() can tell: the name may be there already, or has
    // its place behind the part.
    bool insert(std::uint32_t hash, std::uint32_t number) {
      for (std::size_t at = index_->first_slot(hash); at < end_; ++at) {
        Slot& slot = index_->slots_[at];
        if (slot.number == kNone) {
          slot = {hash, number};
          return true;
        }
        if (slot.hash == hash) return false;
      }
      return false;
    }

   private:
    friend NameIndex;
    Part(NameIndex& index, std::size_t end) : index_(&index), end_(end) {}

    NameIndex* index_;
    std::size_t end_;
  };

  Part part(std::size_t i) {
    const std::size_t size = slots_.size() / kParts;
    std::fill_n(slots_.data() + i * size, size, Slot{0, kNone});
    return Part(*this, (i + 1) * size);
  }

 private:
  struct Slot {
    std::uint32_t hash;
    std::uint32_t number;  // kNone: free

    Slot() {}  // leaves them as they are: part() empties them
    Slot(std::uint32_t of_name, std::uint32_t of_item) : hash(of_name), number(of_item) {}
  };

  std::size_t first_slot(std::uint32_t hash) const {
    return static_cast<std::size_t>((std::uint64_t{hash} * slots_.size()) >> 32);
  }

  // The slot that holds the name, or the free one where it would go.
  std::size_t probe(const Item* items, std::string_view name, std::uint32_t hash) const {
    std::size_t at = first_slot(hash);
    while (slots_[at].number != kNone && !(slots_[at].hash == hash && items[slots_[at].number].name() == name)) {
      if (++at == slots_.size()) at = 0;
    }
    return at;
  }

  std::pmr::vector<Slot> slots_;
  std::uint64_t seed_ = 0;
};

}  // namespace st::format
