// Opening has three phases, each on several threads:
//
// 1. Read the headers and the index.
// 2. Put the tensors of all shards into one table.
// 3. Compare each shard with the index.
//
// If several shards have errors, always reports the first of these shards, regardless of thread timing.
// SPDX-License-Identifier: Apache-2.0
#include "core/open_shards.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "base/parallel_for.hpp"
#include "base/text.hpp"
#include "io/directory.hpp"
#include "io/os.hpp"

namespace st::core {

namespace {

using Shards = std::pmr::deque<Shard>;
using Names = std::span<const std::string_view>;
using Index = format::shard_index::Index;
using TensorIndex = NameIndex<TensorRef>;

// ---- hashes of names ------------------------------------------------------------------------------------------------

struct HashedName {
  std::uint32_t hash;
  std::uint32_t number;  // of the tensor
};

// The names of a shard, grouped by their part of the table's index. Within a group, they are in tensor order.
struct NameHashes {
  std::vector<HashedName> names;
  std::array<std::uint32_t, TensorIndex::kParts> end{};

  std::span<const HashedName> of_part(std::size_t part) const {
    const std::size_t first = part == 0 ? 0 : end[part - 1];
    return std::span(names).subspan(first, end[part] - first);
  }
};

NameHashes hash_names(const Table& table, std::uint64_t seed) {
  const auto& tensors = table.tensors;
  std::vector<std::uint32_t> hashes(tensors.size());
  NameHashes result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    hashes[i] = TensorIndex::hash(tensors[i].name(), seed);
    ++result.end[TensorIndex::part_of(hashes[i])];
  }
  std::array<std::uint32_t, TensorIndex::kParts> next{};
  for (std::size_t part = 1; part < TensorIndex::kParts; ++part) {
    next[part] = result.end[part - 1];
    result.end[part] += result.end[part - 1];
  }
  result.names.resize(tensors.size());
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    result.names[next[TensorIndex::part_of(hashes[i])]++] = {hashes[i], i};
  }
  return result;
}

// Returns true if two names are equal. May also return true if none are.
bool may_repeat(const NameHashes& hashes) {
  std::vector<std::uint32_t> sorted(hashes.names.size());
  std::transform(hashes.names.begin(), hashes.names.end(), sorted.begin(),
                 [](const HashedName& name) { return name.hash; });
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

// ---- one table of all shards ----------------------------------------------------------------------------------------

struct SameName {
  const Tensor* first;
  const Tensor* second;
};

// Returns the names that it could not insert; insert_left_over() must insert them.
std::vector<HashedName> fill_part(TensorIndex& index, std::size_t part_number, std::span<const NameHashes> shards) {
  std::vector<HashedName> left_over;
  TensorIndex::Part part = index.part(part_number);
  std::uint32_t first = 0;
  for (const NameHashes& hashes : shards) {
    for (const auto [hash, number] : hashes.of_part(part_number)) {
      if (!part.insert(hash, first + number)) left_over.push_back({hash, first + number});
    }
    first += static_cast<std::uint32_t>(hashes.names.size());
  }
  return left_over;
}

// Inserts the remaining names in tensor order. Returns the first duplicate.
std::optional<SameName> insert_left_over(std::span<const std::vector<HashedName>> parts, ModelTable& table) {
  std::vector<HashedName> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end(), [](const HashedName& a, const HashedName& b) { return a.number < b.number; });
  for (const auto [hash, number] : all) {
    const std::uint32_t other = table.index.insert_hashed(table.tensors.data(), number, hash);
    if (other != table.index.kNone) return SameName{table.tensors[other].tensor, table.tensors[number].tensor};
  }
  return std::nullopt;
}

// Puts the tensors of all shards into the table. Returns the first tensor with the same name as an earlier one, if
// there is one; the table's index is then incomplete.
std::optional<SameName> gather_tensors(const Shards& shards, std::span<const NameHashes> hashes, std::uint64_t seed,
                                       unsigned threads, ModelTable& table) {
  constexpr std::size_t kWorthThreads = 8192;  // tensors
  std::size_t count = 0;
  for (const Shard& shard : shards) count += shard.table.tensors.size();
  if (count >= UINT32_MAX) fail(Status::overflow, "a checkpoint of {} tensors", count);
  table.index.make_room(count, seed);
  std::array<std::vector<HashedName>, TensorIndex::kParts> left_over;
  parallel_for(1 + TensorIndex::kParts, count < kWorthThreads ? 1 : threads, [&](std::size_t round) {
    if (round != 0) {
      left_over[round - 1] = fill_part(table.index, round - 1, hashes);
      return;
    }
    table.tensors.clear();
    table.tensors.reserve(count);
    for (const Shard& shard : shards) {
      for (const Tensor& tensor : shard.table.tensors) table.tensors.push_back({&tensor});
    }
  });
  return insert_left_over(left_over, table);
}

// Adds the pairs of the index, then the pairs that only the first shard has.
void add_metadata(ModelTable& table, const std::pmr::vector<MetadataPair>& of_index, const Shards& shards,
                  std::uint64_t seed) {
  auto& all = table.metadata;
  auto& index = table.metadata_index;
  const std::span<const MetadataPair> of_shard = shards.front().table.metadata;
  const std::size_t most = of_index.size() + of_shard.size();
  if (most >= UINT32_MAX) fail(Status::overflow, "a checkpoint of {} metadata pairs", most);
  all.reserve(most);
  index.reset(most, seed);
  const auto number_of_last = [&all] { return static_cast<std::uint32_t>(all.size() - 1); };
  for (const auto& [key, value] : of_index) {
    all.push_back({copy_text(table.arena, key), copy_text(table.arena, value)});
    index.insert(all.data(), number_of_last());
  }
  for (const MetadataPair& pair : of_shard) {
    all.push_back(pair);
    if (index.insert(all.data(), number_of_last()) != index.kNone) all.pop_back();
  }
  table.has_metadata = !all.empty();
}

// ---- tensors of a shard, in the order of an index -------------------------------------------------------------------

// Finds the tensors of a shard by name. An index usually lists them in shard order, or as two such sequences that
// alternate, sometimes backwards. So this compares with the next tensor of each sequence before it hashes a name.
class TensorsOfShard {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  TensorsOfShard(const Shard& shard, const ModelTable& table) : shard_(shard), table_(table) {}

  // Returns kNone if there is no such tensor.
  std::uint32_t find(std::string_view name) {
    const auto& tensors = shard_.table.tensors;
    for (std::uint32_t& next : next_) {
      if (next < tensors.size() && tensors[next].name() == name) return next++;
    }
    // 0 - 2 wraps around to an index past every table.
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
  // During opening, a shard has its own index only if a name occurs twice. The model's table finds only one of the two.
  std::uint32_t look_up(std::string_view name) const {
    const Table& own = shard_.table;
    if (!own.index.empty()) return own.index.find(own.tensors.data(), name);
    const std::uint32_t number = table_.index.find(table_.tensors.data(), name);
    if (number == table_.index.kNone) return kNone;
    const Tensor* const tensor = table_.tensors[number].tensor;
    return tensor->owner == &shard_ ? static_cast<std::uint32_t>(tensor - own.tensors.data()) : kNone;
  }

  const Shard& shard_;
  const ModelTable& table_;
  std::array<std::uint32_t, 2> next_{};
};

// ---- opening --------------------------------------------------------------------------------------------------------

constexpr std::size_t kWholeModel = SIZE_MAX;
constexpr unsigned kMostOpeners = 1024;  // threads, whatever a directory states

struct Fault {
  std::size_t shard;  // or kWholeModel
  Error error;
};

// Returns the first error, if there is one. `first` is the shard of errors[0].
std::optional<Fault> first_of(const std::vector<std::optional<Error>>& errors, std::size_t first) {
  const auto found = std::find_if(errors.begin(), errors.end(), [](const auto& error) { return error.has_value(); });
  if (found == errors.end()) return std::nullopt;
  return Fault{first + static_cast<std::size_t>(found - errors.begin()), **found};
}

// Estimates the memory for headers and tables. The pool grows if they need more.
std::size_t likely_bytes(std::size_t shards) {
  return std::clamp<std::size_t>(shards, 1, 256) * (std::size_t{128} << 10);
}

unsigned threads_for(const ModelFiles& files, const OpenOptions& options) {
  if (options.threads != 0) return options.threads;
  const unsigned stated = files.directory->parallel();
  return stated != 0 ? std::min(stated, kMostOpeners) : hardware_threads();
}

class Opening {
 public:
  Opening(const ModelFiles& files, const OpenOptions& options, std::pmr::memory_resource& memory,
          std::optional<Pool>& pool, Shards& shards)
      : files_(files),
        options_(options),
        header_(options.header),
        threads_(threads_for(files, options)),
        memory_(memory),
        pool_(pool),
        shards_(shards),
        index_(&memory) {
    header_.index_names = false;
  }

  std::vector<std::string> open(ModelTable& table) {
    read_headers();
    if (shards_.size() == 1) threads_ = 1;
    const std::optional<Error> in_two_shards = gather(table);
    require_different_files();
    std::vector<std::string> warnings;
    if (claims_) warnings = check_claims(table);
    if (in_two_shards) throw Error(*in_two_shards);
    add_metadata(table, index_.metadata, shards_, header_.seed);
    return warnings;
  }

 private:
  bool has_index() const { return !files_.index.empty(); }

  Error error_of(std::size_t shard, Error error) const {
    return error_of_shard(std::move(error), index_.shards[shard], shards_[shard].path, files_.index);
  }

  void read_index() {
    text_ = read_index_text(*files_.directory->open(files_.index, /*follow_links=*/true), header_, memory_);
    format::shard_index::read(text_.bytes(), header_, index_);
    claims_.emplace(index_, &memory_);
  }

  // Reads the headers of these files, and calls `meanwhile` on one of the threads. Returns the first error.
  //
  // Works in growing batches so that little is allocated for shards after the first error: an index may name a million
  // shards that do not exist.
  std::optional<Fault> load_all(Names names, std::pmr::memory_resource& memory,
                                const std::function<void()>& meanwhile) {
    const unsigned threads = names.size() > 1 ? threads_ : 1;
    HeaderSum sum{options_.max_headers_bytes};
    do {
      const std::size_t first = shards_.size();
      const Names batch = names.subspan(first, end_of_batch(first, names.size()) - first);
      for (std::size_t i = 0; i < batch.size(); ++i) shards_.emplace_back(&memory).number = first + i;
      hashes_.resize(shards_.size());
      std::vector<std::optional<Error>> errors(batch.size());
      parallel_for(batch.size() + 1, threads, [&](std::size_t round) {
        if (round == 0) return first == 0 ? meanwhile() : void();
        const std::size_t i = round - 1;
        Shard& shard = shards_[first + i];
        try {
          shard.source = files_.directory->open(std::string(batch[i]), options_.follow_links);
          open_shard(shard, options_.io, header_, &sum);
          hashes_[first + i] = hash_names(shard.table, header_.seed);
        } catch (const Error& error) {
          errors[i] = error;
        }
      });
      // Report this before errors of shards: once the sum is exceeded, thread timing decides which shards were read.
      if (sum.exceeded()) {
        return Fault{kWholeModel,
                     error_of_header_sum(has_index() ? files_.index : files_.directory->path(), shards_.size(), sum)};
      }
      if (auto fault = first_of(errors, first)) return fault;
    } while (shards_.size() < names.size());
    return std::nullopt;
  }

  // Reading the index takes as long as reading several shards. So the files that look like its shards are read at the
  // same time, and dropped if the index names other files.
  void read_headers() {
    const auto load_named = [&](Names names, const std::function<void()>& meanwhile) {
      shards_.clear();
      return load_all(names, pool_.emplace(likely_bytes(names.size()), &memory_), meanwhile);
    };
    const std::vector<std::string_view> found(files_.files.begin(), files_.files.end());
    auto fault = load_named(found, [&] {
      if (has_index()) read_index();
    });
    auto& named = index_.shards;
    if (!has_index()) named.assign(found.begin(), found.end());
    if (!std::equal(found.begin(), found.end(), named.begin(), named.end())) fault = load_named(named, [] {});
    if (!fault) return require_kept_names();
    if (fault->shard == kWholeModel) throw Error(std::move(fault->error));
    for (std::size_t i = 0; i < fault->shard; ++i) {
      if (may_repeat(hashes_[i])) index_names_of(i);
    }
    throw Error(error_of(fault->shard, std::move(fault->error)));
  }

  // Detects a save that replaces a shard during this call. A save that replaced some shards before it and replaces others
  // after it is not detected.
  void require_kept_names() const {
    if (shards_.size() < 2) return;
    const bool settled = !files_.directory->changed_lately();
    std::vector<std::size_t> looked_up;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      const bool is_below = index_.shards[i].find('/') != index_.shards[i].npos;
      if (!settled || is_below || shards_[i].source->is_linked()) looked_up.push_back(i);
    }
    std::vector<std::optional<Error>> errors(looked_up.size());
    parallel_for(looked_up.size(), threads_, [&](std::size_t round) {
      try {
        require_kept_name(looked_up[round]);
      } catch (const Error& error) {
        errors[round] = error;
      }
    });
    if (auto fault = first_of(errors, 0)) throw Error(std::move(fault->error));
  }

  void require_kept_name(std::size_t shard) const {
    const std::string name(index_.shards[shard]);
    if (leads_to_shard(name, shard)) return;
    throw Error{Status::shard, EAGAIN, kNowhere,
                formatted("shard {} was replaced while the model was being opened", in_quotes(name))};
  }

  bool leads_to_shard(const std::string& name, std::size_t shard) const {
    try {
      return files_.directory->leads_to(name, *shards_[shard].source);
    } catch (const Error& error) {
      throw Error(error_of(shard, error));
    }
  }

  // Throws if a name occurs twice in this shard. Headers are read without an index of names, because gather() finds
  // duplicates, including those inside one shard.
  void index_names_of(std::size_t shard) {
    try {
      index_names(shards_[shard], header_);
    } catch (const Error& error) {
      throw Error(error_of(shard, error));
    }
  }

  // Returns an error if a name is in two shards. Errors of a single shard are reported first.
  std::optional<Error> gather(ModelTable& table) {
    const auto gather_all = [&] { return gather_tensors(shards_, hashes_, header_.seed, threads_, table); };
    if (!gather_all()) return std::nullopt;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      index_names_of(i);
      hashes_[i] = hash_names(shards_[i].table, header_.seed);  // fewer if duplicates are allowed and the last one wins
    }
    const auto same = gather_all();
    if (!same) return std::nullopt;
    return error_of_name_in_two_shards(same->first->name(), shard_of(*same->first).path, shard_of(*same->second).path);
  }

  void require_different_files() const {
    std::vector<std::optional<io::Identity>> identities;
    identities.reserve(shards_.size());
    for (const Shard& shard : shards_) {
      identities.push_back(shard.table.tensors.empty() ? std::nullopt : shard.source->identity());
    }
    const std::optional<SameFile> same = find_same_file(identities);
    if (same) throw Error(error_of_one_file(shards_[same->first].path, shards_[same->second].path));
  }

  std::vector<std::string> check_claims(const ModelTable& table) const {
    constexpr std::size_t kWorthThreads = 8192;  // entries
    std::vector<std::string> warnings(shards_.size());
    std::vector<std::optional<Error>> errors(shards_.size());
    const unsigned threads = index_.entries.size() < kWorthThreads ? 1 : threads_;
    parallel_for(shards_.size(), threads, [&](std::size_t round) {
      const std::size_t i = shards_.size() - 1 - round;  // backwards, because the last shards are still cached
      try {
        format::FaultSink throws;
        warnings[i] = describe_unlisted(shards_[i], listed_tensors(shards_[i], *claims_, table, throws));
        if (header_.rules == format::Rules::strict && !warnings[i].empty()) fail(Status::shard, "{}", warnings[i]);
      } catch (const Error& error) {
        errors[i] = error;
      }
    });
    if (const auto fault = first_of(errors, 0)) throw Error(error_of(fault->shard, fault->error));
    std::erase_if(warnings, [](const std::string& warning) { return warning.empty(); });
    return warnings;
  }

  const ModelFiles& files_;
  const OpenOptions& options_;
  format::HeaderOptions header_;
  unsigned threads_;
  std::pmr::memory_resource& memory_;
  std::optional<Pool>& pool_;
  Shards& shards_;
  PaddedBuffer text_;                  // of the index
  Index index_;                        // without an index: only the names of the shards
  std::optional<ShardClaims> claims_;  // nullopt without an index
  std::vector<NameHashes> hashes_;     // of each shard
};

}  // namespace

std::vector<std::string> open_shards(const ModelFiles& files, const OpenOptions& options,
                                     std::pmr::memory_resource& memory, std::optional<Pool>& pool, Shards& shards,
                                     ModelTable& table) {
  return Opening(files, options, memory, pool, shards).open(table);
}

PaddedBuffer read_index_text(const io::Source& file, const format::HeaderOptions& options,
                             std::pmr::memory_resource& memory) {
  const std::uint64_t limit = format::header_limit(options);
  if (file.size() > limit) fail(Status::header_size, "index: {} bytes long, above the limit of {}", file.size(), limit);
  PaddedBuffer text(static_cast<std::size_t>(file.size()), &memory);
  file.read_at(0, text.data(), text.size());
  return text;
}

// ---- comparing shards with the index --------------------------------------------------------------------------------

ShardClaims::ShardClaims(const Index& index, std::pmr::memory_resource* memory)
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

std::vector<bool> listed_tensors(const Shard& shard, const ShardClaims& claims, const ModelTable& table,
                                 format::FaultSink& faults) {
  const Index& index = claims.index();
  const auto report = [&](Status status, std::string_view name, std::string_view what) {
    faults.report({status, 0, kNowhere,
                   formatted("index: tensor {} {} {}", in_quotes(name), what, in_quotes(index.shards[shard.number]))},
                  name);
  };
  std::vector<bool> listed(shard.table.tensors.size());
  std::set<std::string_view> reported;
  TensorsOfShard tensors(shard, table);
  for (const EntryRun& run : claims.of_shard(shard.number)) {
    for (std::size_t i = run.first; i < run.end; ++i) {
      const std::string_view name = index.entries[i].tensor;
      const std::uint32_t number = tensors.find(name);
      const bool is_there = number != TensorsOfShard::kNone;
      if (is_there && !listed[number]) {
        listed[number] = true;
      } else if (reported.insert(name).second) {
        is_there ? report(Status::duplicate, name, "is listed twice for shard")
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
  return formatted("shard {} contains {} tensors that the index does not list; the first is {}", in_quotes(shard.path),
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
  return {Status::shard, 0, kNowhere,
          formatted("shards {} and {} are the same file", in_quotes(path), in_quotes(same))};
}

Error error_of_name_in_two_shards(std::string_view tensor, std::string_view path, std::string_view later_path) {
  return {
      Status::shard, 0, kNowhere,
      formatted("tensor {} is in two shards, {} and {}", in_quotes(tensor), in_quotes(path), in_quotes(later_path))};
}

Error error_of_header_sum(std::string_view model, std::size_t shards, const HeaderSum& sum) {
  return {Status::header_size, 0, kNowhere,
          formatted("{}: the headers of the first {} shards have {} bytes, above the limit of {}", in_quotes(model),
                    shards, sum.bytes.load(), sum.limit)};
}

std::size_t end_of_batch(std::size_t first, std::size_t shards) {
  constexpr std::size_t kFirstBatch = 256;
  return first + std::min(std::max(first, kFirstBatch), shards - first);
}

// Some network filesystems give all files the same inode number. So 0 is ignored, and sizes and times are compared,
// too.
std::optional<SameFile> find_same_file(std::span<const std::optional<io::Identity>> shards) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i] && shards[i]->inode != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(shards[a]->device, shards[a]->inode, a) < std::tie(shards[b]->device, shards[b]->inode, b);
  });
  std::optional<SameFile> found;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const SameFile same{order[i - 1], order[i]};
    if (*shards[same.first] == *shards[same.second] && (!found || same.second < found->second)) found = same;
  }
  return found;
}

}  // namespace st::core
