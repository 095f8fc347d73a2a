// SPDX-License-Identifier: Apache-2.0
#include "core/shard_claims.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/compiler.hpp"
#include "base/error.hpp"

namespace st::core {

namespace {

constexpr std::uint32_t kNone = UINT32_MAX;
constexpr std::size_t kAhead = 8;  // so many names are fetched from memory while one is compared

// Names are mostly longer than what is left of the cache line that they begin in.
void fetch(std::string_view name) {
  prefetch(name.data());
  prefetch(name.data() + name.size());
}

// Finds the tensors of a shard by name. An index mostly names them in the order of the shard, or in two such sequences
// that alternate, sometimes backwards: the next tensor of each is compared before a name is hashed.
class TensorsOfShard {
 public:
  TensorsOfShard(const Shard& shard, const Catalog& catalog) : shard_(shard), catalog_(catalog) {}

  // kNone if there is no such tensor.
  std::uint32_t find(std::string_view name) {
    const auto& tensors = shard_.table.tensors;
    for (std::uint32_t& next : next_) {
      if (next >= tensors.size() || tensors[next].name() != name) continue;
      if (next + kAhead < tensors.size()) fetch(tensors[next + kAhead].name());
      return next++;
    }
    // 0 - 2 is beyond every table.
    if (const std::uint32_t before = next_[0] - 2; before < tensors.size() && tensors[before].name() == name) {
      next_[0] = before + 1;
      return before;
    }
    const std::uint32_t number = look_up(name);
    if (number == kNone) return kNone;
    next_[1] = next_[0];
    next_[0] = number + 1;
    return number;
  }

 private:
  // A shard has an index of its own only where names are given twice, of which the catalog finds but one.
  std::uint32_t look_up(std::string_view name) const {
    const Table& table = shard_.table;
    if (!table.index.empty()) return table.index.find(table.tensors.data(), name);
    const std::uint32_t number = catalog_.index.find(catalog_.tensors.data(), name);
    if (number == catalog_.index.kNone) return kNone;
    const Tensor* const tensor = catalog_.tensors[number].tensor;
    return tensor->owner == &shard_ ? static_cast<std::uint32_t>(tensor - table.tensors.data()) : kNone;
  }

  const Shard& shard_;
  const Catalog& catalog_;
  std::array<std::uint32_t, 2> next_{};
};

}  // namespace

ShardClaims::ShardClaims(const format::shard_index::Index& index, std::pmr::memory_resource* memory)
    : index_(index), runs_(memory), first_(index.shards.size() + 2, memory) {
  const auto& entries = index.entries;
  const auto begins_run = [&](std::size_t i) { return i == 0 || entries[i].shard != entries[i - 1].shard; };
  for (std::size_t i = 0; i < entries.size(); ++i) first_[entries[i].shard + 2] += begins_run(i) ? 1 : 0;
  for (std::size_t i = 2; i < first_.size(); ++i) first_[i] += first_[i - 1];
  runs_.resize(first_.back());
  EntryRun* run = nullptr;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    if (begins_run(i)) {
      run = &runs_[first_[entries[i].shard + 1]++];
      run->first = i;
    }
    run->end = i + 1;
  }
}

std::string check_claims(const Shard& shard, const ShardClaims& claims, const Catalog& catalog, bool strict) {
  const format::shard_index::Index& index = claims.index();
  const Table& table = shard.table;
  const auto refuse = [&](Status status, std::string_view name, std::string_view what) {
    fail(status, "index: tensor {} {} {}", in_quotes(name), what, in_quotes(index.shards[shard.number]));
  };
  std::vector<bool> listed(table.tensors.size());
  std::size_t count = 0;
  TensorsOfShard tensors(shard, catalog);
  for (const EntryRun& run : claims.of_shard(shard.number)) {
    for (std::size_t i = run.first; i < run.end; ++i, ++count) {
      if (i + kAhead < run.end) fetch(index.entries[i + kAhead].tensor);
      const std::string_view name = index.entries[i].tensor;
      const std::uint32_t number = tensors.find(name);
      if (number == kNone) refuse(Status::shard, name, "is not in its shard");
      if (listed[number]) refuse(Status::duplicate, name, "is given twice, for shard");
      listed[number] = true;
    }
  }
  if (count == listed.size()) return {};
  const auto unlisted = static_cast<std::size_t>(std::find(listed.begin(), listed.end(), false) - listed.begin());
  std::string warning =
      formatted("shard {} holds {} tensors that the index does not list, the first is {}", in_quotes(shard.path),
                listed.size() - count, in_quotes(table.tensors[unlisted].name()));
  if (strict) fail(Status::shard, "{}", warning);
  return warning;
}

}  // namespace st::core
