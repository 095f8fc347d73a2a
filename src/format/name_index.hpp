// Finding an item by name: open addressing over (hash, number) pairs of 32 bits each.
//
// The hash is keyed with a seed that the writer of a file cannot know, so names made to collide do not. A template
// because tensors and metadata are both looked up so; an Item has name().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string_view>
#include <vector>

namespace st {

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

  std::uint32_t hash(std::string_view name) const { return static_cast<std::uint32_t>(hash_name(name, seed_)); }

  // Fetches the place of a name, which will be wanted soon.
  void prefetch(std::uint32_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[first_slot(hash)], 1);
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

  // Calls visit(hash, number) for every name, in no order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.number != kNone) visit(slot.hash, slot.number);
    }
  }

 private:
  struct Slot {
    std::uint32_t hash;
    std::uint32_t number;  // kNone: free
  };

  std::size_t first_slot(std::uint32_t hash) const { return (std::uint64_t{hash} * slots_.size()) >> 32; }

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

// The hashes of a list of names, one after another. A few of them are made ahead and their places fetched, so that
// nobody waits for memory.
template <class Item, class NameAt>
class HashesAhead {
 public:
  HashesAhead(const NameIndex<Item>& index, std::size_t count, NameAt name_at)
      : index_(index), name_at_(name_at), count_(count) {
    for (std::size_t i = 0; i < kAhead; ++i) make(i);
  }

  std::uint32_t next() {
    const std::uint32_t hash = hashes_[at_ % kAhead];
    make(at_ + kAhead);
    ++at_;
    return hash;
  }

 private:
  static constexpr std::size_t kAhead = 8;

  void make(std::size_t i) {
    if (i >= count_) return;
    hashes_[i % kAhead] = index_.hash(name_at_(i));
    index_.prefetch(hashes_[i % kAhead]);
  }

  const NameIndex<Item>& index_;
  NameAt name_at_;
  std::size_t count_;
  std::size_t at_ = 0;
  std::array<std::uint32_t, kAhead> hashes_{};
};

}  // namespace st
