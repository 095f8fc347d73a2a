// The contents of a header: tensors and metadata, each with an index of names.
//
// Every container format is read into this table. A table is filled once, checked, and does not change afterwards.
// Names and metadata are views into the header's bytes unless they contain escapes; a NUL overwrites the closing quote.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "base/compiler.hpp"
#include "base/dtype.hpp"

namespace st::format {

std::uint64_t hash_name(std::string_view name, std::uint64_t seed);

// Finds an item by its name: a hash table with open addressing over pairs of (hash, number), 32 bits each. The hash is
// keyed with a seed that the author of a file cannot know, so names cannot be chosen to collide. Item must have a
// function name().
template <class Item>
class NameIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit NameIndex(std::pmr::memory_resource* memory) : slots_(memory) {}

  // Empties the index and makes room for `count` names. Half of the slots stay free, so probes are short.
  void reset(std::size_t count, std::uint64_t seed) {
    slots_.clear();
    slots_.resize(2 * count + 1, Slot{0, kNone});
    seed_ = seed;
  }

  // Inserts the item and returns kNone, or returns the number of the item that already has this name.
  std::uint32_t insert(const Item* items, std::uint32_t number) {
    return insert_hashed(items, number, hash(items[number].name()));
  }

  bool empty() const { return slots_.empty(); }  // has no room: reset() was never called

  std::uint32_t hash(std::string_view name) const { return hash(name, seed_); }
  static std::uint32_t hash(std::string_view name, std::uint64_t seed) {
    return static_cast<std::uint32_t>(hash_name(name, seed));
  }

  // Prefetches the slot of a name.
  void prefetch(std::uint32_t hash) const {
    if (!slots_.empty()) prefetch_to_write(&slots_[first_slot(hash)]);
  }

  // Like insert(), for an item whose hash is known, from this index or another one with the same seed.
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

  // ---- for several threads: call make_room(), fill all parts in parallel, then call insert_hashed() for rejected
  // names

  static constexpr std::size_t kParts = 8;
  static std::size_t part_of(std::uint32_t hash) { return hash >> 29; }

  // Like reset(), but part() empties the slots of each part.
  void make_room(std::size_t count, std::uint64_t seed) {
    slots_.clear();
    slots_.resize((2 * count / kParts + 1) * kParts);  // a multiple of kParts, so no slot belongs to two parts
    seed_ = seed;
  }

  class Part {
   public:
    // Inserts a name whose hash belongs to this part. Returns false if the name may already be present, or if its slot
    // is past the end of the part. The caller must then use insert_hashed().
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

    Slot() {}  // uninitialized: part() empties the slots
    Slot(std::uint32_t of_name, std::uint32_t of_item) : hash(of_name), number(of_item) {}
  };

  std::size_t first_slot(std::uint32_t hash) const {
    return static_cast<std::size_t>((std::uint64_t{hash} * slots_.size()) >> 32);
  }

  // Returns the slot that holds the name, or the free slot where it belongs.
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

// Only 48 bytes, because opening a large model creates a hundred thousand of them.
struct Tensor {
  const void* owner = nullptr;          // HeaderOptions::owner
  const char* name_text = nullptr;      // NUL-terminated
  std::uint64_t begin = 0;              // relative to the first data byte
  std::uint64_t end = 0;                // one past
  const std::uint64_t* dims = nullptr;  // `rank` dimensions; an unknown dtype has one more word, see dtype_name()
  std::uint32_t rank = 0;
  std::uint32_t name_bytes : 27;  // a header, and so a name, has at most 100,000,000 bytes
  std::uint32_t dtype_number : 5;

  Tensor() : name_bytes(0), dtype_number(0) {}  // C++17 has no initializers for bit-fields

  std::string_view name() const { return {name_text, name_bytes}; }
  std::span<const std::uint64_t> shape() const { return {dims, rank}; }
  Dtype dtype() const { return static_cast<Dtype>(dtype_number); }
  std::uint64_t bytes() const { return end - begin; }
  // Returns the name as in the file. For an unknown dtype, dims[rank] holds the address of the name.
  const char* dtype_name() const;
};
static_assert(kDtypes.size() <= 1U << 5, "a dtype's number no longer fits in Tensor");

enum class Format : std::uint8_t { safetensors = 1, bintensors = 2, bintensors_old = 3 };

struct MetadataPair {
  std::string_view key;  // both NUL-terminated
  std::string_view value;

  std::string_view name() const { return key; }
};

struct Table {
  std::pmr::monotonic_buffer_resource arena;  // shapes, and strings that had to be unescaped
  std::pmr::vector<Tensor> tensors;           // in data order: (begin, end, name)
  std::pmr::vector<MetadataPair> metadata;    // in the order of the file
  NameIndex<Tensor> index;
  NameIndex<MetadataPair> metadata_index;
  std::uint64_t data_begin = 0;  // absolute, in the file
  bool has_metadata = false;     // an empty map is not the same as none
  Format format = Format::safetensors;

  explicit Table(std::pmr::memory_resource* memory)
      : arena(memory), tensors(memory), metadata(memory), index(memory), metadata_index(memory) {}

  // Empties the table before another header is read, except for the indexes, which the reader rebuilds.
  void clear();
};

}  // namespace st::format
