// SPDX-License-Identifier: Apache-2.0
#include "core/shard_claims.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/compiler.hpp"
#include "base/error.hpp"
#include "io/os_error.hpp"

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

std::vector<bool> listed_tensors(const Shard& shard, const ShardClaims& claims, const Catalog& catalog,
                                 format::FaultSink& faults) {
  const format::shard_index::Index& index = claims.index();
  const auto report = [&](Status status, std::string_view name, std::string_view what) {
    faults.report({status, 0, kNowhere,
                   formatted("index: tensor {} {} {}", in_quotes(name), what, in_quotes(index.shards[shard.number]))},
                  name);
  };
  std::vector<bool> listed(shard.table.tensors.size());
  std::set<std::string_view> reported;
  TensorsOfShard tensors(shard, catalog);
  for (const EntryRun& run : claims.of_shard(shard.number)) {
    for (std::size_t i = run.first; i < run.end; ++i) {
      if (i + kAhead < run.end) fetch(index.entries[i + kAhead].tensor);
      const std::string_view name = index.entries[i].tensor;
      const std::uint32_t number = tensors.find(name);
      const bool is_there = number != kNone;
      if (is_there && !listed[number]) {
        listed[number] = true;
      } else if (reported.insert(name).second) {
        is_there ? report(Status::duplicate, name, "is given twice, for shard")
                 : report(Status::shard, name, "is not in its shard");
      }
    }
  }
  return listed;
}

std::string describe_unlisted(const Shard& shard, const std::vector<bool>& listed) {
  const auto first = std::find(listed.begin(), listed.end(), false);
  if (first == listed.end()) return {};
  const Tensor& tensor = shard.table.tensors[static_cast<std::size_t>(first - listed.begin())];
  return formatted("shard {} holds {} tensors that the index does not list, the first is {}", in_quotes(shard.path),
                   std::count(first, listed.end(), false), in_quotes(tensor.name()));
}

Error error_of_shard(Error error, std::string_view name, std::string_view path, std::string_view index) {
  const auto names = [&](const std::string& text) { return error.message.find(text) != std::string::npos; };
  if (error.status == Status::open && io::is_no_such_file(error.os_error)) {
    error.status = Status::shard;
    error.message = index.empty() ? formatted("shard {} is missing", in_quotes(name))
                                  : formatted("index {}: shard {} is missing", in_quotes(index), in_quotes(name));
  } else if (!names(in_quotes(name).substr(1)) && (path.empty() || !names(in_quotes(path)))) {
    error.message = formatted("shard {}: {}", in_quotes(name), error.message);
  }
  return error;
}

Error error_of_one_file(std::string_view path, std::string_view same) {
  return {Status::shard, 0, kNowhere, formatted("shards {} and {} are one file", in_quotes(path), in_quotes(same))};
}

Error error_of_name_in_two_shards(std::string_view tensor, std::string_view path, std::string_view later_path) {
  return {
      Status::shard, 0, kNowhere,
      formatted("tensor {} is in two shards, {} and {}", in_quotes(tensor), in_quotes(path), in_quotes(later_path))};
}

Error error_of_header_sum(std::string_view model, std::size_t shards, const HeaderSum& sum) {
  return {Status::header_size, 0, kNowhere,
          formatted("{}: the headers of the first {} shards have {} bytes, the limit is {}", in_quotes(model), shards,
                    sum.bytes.load(), sum.limit)};
}

std::size_t end_of_batch(std::size_t first, std::size_t shards) {
  constexpr std::size_t kFirstBatch = 256;
  return first + std::min(std::max(first, kFirstBatch), shards - first);
}

}  // namespace st::core
