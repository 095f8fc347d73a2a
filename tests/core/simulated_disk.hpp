// A disk that loses power, after some changes and syncs. Finds all states that it may be in when the power returns.
//
// It promises no more than this:
//   - fsync() of a file makes its bytes, size and mode durable, but not its names. fsync() of a directory makes the
//     names in it durable. Each other change may be lost or not, independently of all others: sectors of a file in any
//     combination, its size without its bytes, a name before the file that it leads to.
//   - A sector of 512 bytes is written as a whole. Sectors that were never written contain zeros.
//   - A name leads to the file of its last link or rename, or of an earlier one. It is never missing in between.
//   - After a failed fsync(), a later one makes only rewritten sectors durable, and the size only if it has changed
//     since.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../io/faults.hpp"

namespace st::core::simulated_disk {

constexpr std::size_t kSector = 512;

// The durable state, and each later one.
template <class T>
class Uncertain {
 public:
  explicit Uncertain(T durable) : states_{std::move(durable)} {}

  const T& now() const { return states_.back(); }
  const std::vector<T>& states() const { return states_; }
  void set(T value) {
    if (value != now()) states_.push_back(std::move(value));
    dirty_ = true;
  }
  void sync() {
    if (dirty_) states_ = {now()};
    dirty_ = false;
  }
  void fail_to_sync() { dirty_ = false; }

 private:
  std::vector<T> states_;
  bool dirty_ = false;
};

struct Content {
  std::string bytes;
  std::uint64_t mode = 0;

  bool operator==(const Content&) const = default;
};

struct File {
  std::vector<Uncertain<std::string>> sectors;
  Uncertain<std::uint64_t> size{0};
  Uncertain<std::uint64_t> mode{0};
};

struct Name {
  std::uint64_t folder = 0;
  std::string name;

  auto operator<=>(const Name&) const = default;
};

class Disk {
 public:
  using See = std::function<bool(const std::optional<Content>&)>;

  // Adds a durable file.
  void add(const Name& name, std::uint64_t inode, const Content& content);

  void apply(const faults::Change& change);

  // Calls `see` with each content that the name may lead to when the power returns, or with none if the name may be
  // missing. Stops when `see` returns false, and returns false. Leaves out the states of other files and names, because
  // they do not change the result.
  //
  // If the sectors of a file have at most 1024 combinations, tries all. Otherwise tries: all old or all new; one sector
  // old or new; all new up to each sector; and 200 random ones.
  bool lose_power(const Name& name, const See& see) const;

  // What programs read while there is power.
  std::map<Name, Content> now() const;

 private:
  using Number = std::optional<std::size_t>;  // of a file; none: no such name

  File& create(std::uint64_t inode, std::uint64_t mode);

  std::map<std::uint64_t, std::size_t> numbers_;  // by inode
  std::vector<File> files_;
  std::map<Name, Uncertain<Number>> names_;
};

}  // namespace st::core::simulated_disk
