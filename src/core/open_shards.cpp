// Opening all shards of a model, on several threads.
//
// All headers are read now, so that looking can never fail later. There are three phases, one after another, each on
// several threads: headers and index are read; all tensors get their places in the catalog; what the index says of each
// shard is held against it. Of several faults the one in the first shard is told, whichever thread was first.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "core/checkpoint.hpp"
#include "core/shard_claims.hpp"
#include "core/shard_list.hpp"
#include "format/shard_index/shard_index.hpp"
#include "io/directory.hpp"
#include "io/os.hpp"

namespace st::core {

namespace {

using Shards = std::pmr::deque<Shard>;
using Names = std::span<const std::string_view>;

struct Opening {
  const ShardList& list;
  const OpenOptions& options;
  format::HeaderOptions header;
  std::pmr::memory_resource* memory;
  unsigned threads;

  bool has_index() const { return !list.index.empty(); }
};

// What is needed until all is open.
struct OpeningState {
  PaddedBuffer text;  // of the index
  format::shard_index::Index index;
  std::optional<ShardClaims> claims;
  std::vector<NameHashes> hashes;  // of each shard

  explicit OpeningState(std::pmr::memory_resource* memory) : index(memory) {}
};

constexpr std::size_t kWholeModel = SIZE_MAX;

struct Fault {
  std::size_t shard;  // or kWholeModel
  Error error;
};

// `first` is the shard of errors[0].
std::optional<Fault> first_of(const std::vector<std::optional<Error>>& errors, std::size_t first) {
  const auto found = std::find_if(errors.begin(), errors.end(), [](const auto& error) { return error.has_value(); });
  if (found == errors.end()) return std::nullopt;
  return Fault{first + static_cast<std::size_t>(found - errors.begin()), **found};
}

Error error_of_shard(Error error, std::string_view name, std::string_view index) {
  if (error.status == Status::open && io::is_no_such_file(error.os_error)) {
    error.status = Status::shard;
    error.message = index.empty() ? formatted("shard {} is missing", in_quotes(name))
                                  : formatted("index {}: shard {} is missing", in_quotes(index), in_quotes(name));
  } else if (error.message.find(name) == std::string::npos) {
    error.message = formatted("shard {}: {}", in_quotes(name), error.message);
  }
  return error;
}

// ---- reading headers and index --------------------------------------------------------------------------------------

// A header and its table mostly take so much. Where there are more of them, the pool grows.
std::size_t likely_bytes(std::size_t shards) {
  return std::clamp<std::size_t>(shards, 1, 256) * (std::size_t{128} << 10);
}

PaddedBuffer read_text(const io::Source& file, const Opening& opening) {
  const std::uint64_t limit = std::min(opening.options.header.max_bytes, format::kMaxHeaderBytes);
  if (file.size() > limit) fail(Status::header_size, "index: {} bytes long, the limit is {}", file.size(), limit);
  PaddedBuffer text(static_cast<std::size_t>(file.size()), opening.memory);
  file.read_at(0, text.data(), text.size());
  return text;
}

void read_index(const Opening& opening, OpeningState& reading) {
  reading.text = read_text(*opening.list.folder->open(opening.list.index, /*follow_links=*/true), opening);
  format::shard_index::read(reading.text.bytes(), opening.header, reading.index);
  reading.claims.emplace(reading.index, opening.memory);
}

void load_one(Shard& shard, std::string_view name, const Opening& opening, HeaderSum& sum) {
  shard.source = opening.list.folder->open(std::string(name), opening.options.follow_links);
  shard.path = shard.source->name();
  load(shard, opening.options.io, opening.header, &sum);
}

// Comes before the faults of the shards: which of them were read until the sum was too large depends on the threads.
Fault fault_of_sum(const HeaderSum& sum, std::size_t shards, const Opening& opening) {
  const std::string& model = opening.has_index() ? opening.list.index : opening.list.folder->path();
  return {kWholeModel, Error{Status::header_size, 0, kNowhere,
                             formatted("{}: the headers of the first {} shards have {} bytes, the limit is {}",
                                       in_quotes(model), shards, sum.bytes.load(), sum.limit)}};
}

// Reads the headers of these files, and does `besides`. In batches, each twice as long as the one before: an index may
// name a million shards that are not there, and nothing is made for those that come long after the first fault, which
// is what is returned.
std::optional<Fault> load_all(const Opening& opening, Names names, Shards& shards, std::pmr::memory_resource& memory,
                              OpeningState& reading, const std::function<void()>& besides) {
  constexpr std::size_t kFirstBatch = 256;
  const unsigned threads = names.size() > 1 ? opening.threads : 1;
  HeaderSum sum{opening.options.max_headers_bytes};
  std::vector<NameHashes>& hashes = reading.hashes;
  do {
    const std::size_t first = shards.size();
    const Names batch = names.subspan(first, std::min(std::max(first, kFirstBatch), names.size() - first));
    for (std::size_t i = 0; i < batch.size(); ++i) shards.emplace_back(&memory).number = first + i;
    hashes.resize(shards.size());
    std::vector<std::optional<Error>> errors(batch.size());
    parallel_for(batch.size() + 1, threads, [&](std::size_t round) {
      if (round == 0) return first == 0 ? besides() : void();
      const std::size_t i = round - 1;
      Shard& shard = shards[first + i];
      try {
        load_one(shard, batch[i], opening, sum);
        hashes[first + i] = hash_names(shard.table, opening.header.seed);
      } catch (const Error& error) {
        errors[i] = error;
      }
    });
    if (sum.exceeded()) return fault_of_sum(sum, shards.size(), opening);
    if (auto fault = first_of(errors, first)) return fault;
  } while (shards.size() < names.size());
  return std::nullopt;
}

// Headers are read without an index of their names, since gather() finds duplicates. These are reported as faults of
// their shard: this throws if the shard has one.
void index_names(const Opening& opening, const OpeningState& reading, Shard& shard) {
  try {
    core::index_names(shard, opening.header);
  } catch (const Error& error) {
    throw Error(error_of_shard(error, reading.index.shards[shard.number], opening.list.index));
  }
}

// The index alone says which shards there are. OpeningState it takes as long as reading some shards, so the shards found in
// the folder are opened at the same time, and dropped when the index says otherwise.
void read_headers(const Opening& opening, std::optional<Pool>& pool, Shards& shards, OpeningState& reading) {
  const auto load_named = [&](Names names, bool are_there, const std::function<void()>& besides) {
    shards.clear();
    Pool& memory = pool.emplace(likely_bytes(names.size()), opening.memory);
    // Its first block, which the heap of a thread that is about to end would not keep for the next opening.
    if (are_there) static_cast<void>(memory.allocate(1));
    return load_all(opening, names, shards, memory, reading, besides);
  };
  const std::vector<std::string_view> found(opening.list.files.begin(), opening.list.files.end());
  auto fault = load_named(found, !found.empty(), [&] {
    if (opening.has_index()) read_index(opening, reading);
  });
  auto& said = reading.index.shards;
  if (!opening.has_index()) said.assign(found.begin(), found.end());
  if (!std::equal(found.begin(), found.end(), said.begin(), said.end())) fault = load_named(said, false, [] {});
  if (!fault) return;
  if (fault->shard == kWholeModel) throw Error(std::move(fault->error));
  for (std::size_t i = 0; i < fault->shard; ++i) {
    if (may_repeat(reading.hashes[i])) index_names(opening, reading, shards[i]);
  }
  throw Error(error_of_shard(std::move(fault->error), said[fault->shard], opening.list.index));
}

void require_different_files(const Shards& shards) {
  std::vector<std::optional<io::Identity>> identities;
  identities.reserve(shards.size());
  for (const Shard& shard : shards) identities.push_back(shard.source->identity());
  const std::optional<SameFile> same = find_same_file(identities);
  if (!same) return;
  fail(Status::shard, "shards {} and {} are one file", in_quotes(shards[same->first].path),
       in_quotes(shards[same->second].path));
}

// ---- gathering ------------------------------------------------------------------------------------------------------

// Returns what is wrong when a name is in two shards, which is told after what is wrong in a single one.
std::optional<Error> gather_tensors(const Opening& opening, Shards& shards, OpeningState& reading, Catalog& catalog) {
  const auto gather_all = [&] { return gather(shards, reading.hashes, opening.header.seed, opening.threads, catalog); };
  if (!gather_all()) return std::nullopt;
  for (Shard& shard : shards) index_names(opening, reading, shard);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    reading.hashes[i] = hash_names(shards[i].table, opening.header.seed);  // fewer where the last of a name counts
  }
  const auto same = gather_all();
  if (!same) return std::nullopt;
  return Error{Status::shard, 0, kNowhere,
               formatted("tensor {} is in two shards, {} and {}", in_quotes(same->first->name()),
                         in_quotes(shard_of(*same->first).path), in_quotes(shard_of(*same->second).path))};
}

// ---- checking what the index says -----------------------------------------------------------------------------------

std::vector<std::string> check_all_claims(const Opening& opening, const Shards& shards, const OpeningState& reading,
                                          const Catalog& catalog) {
  constexpr std::size_t kWorthAThread = 8192;  // entries
  std::vector<std::string> warnings(shards.size());
  std::vector<std::optional<Error>> errors(shards.size());
  const bool strict = opening.header.rules == format::Rules::strict;
  const unsigned threads = reading.index.entries.size() < kWorthAThread ? 1 : opening.threads;
  parallel_for(shards.size(), threads, [&](std::size_t round) {
    const std::size_t i = shards.size() - 1 - round;  // what was read last is still in the caches
    try {
      warnings[i] = check_claims(shards[i], *reading.claims, catalog, strict);
    } catch (const Error& error) {
      errors[i] = error;
    }
  });
  if (const auto fault = first_of(errors, 0)) {
    throw Error(error_of_shard(fault->error, reading.index.shards[fault->shard], opening.list.index));
  }
  std::erase_if(warnings, [](const std::string& warning) { return warning.empty(); });
  return warnings;
}

}  // namespace

void Checkpoint::load_shards(const ShardList& list, const OpenOptions& options) {
  Opening opening{list, options, options.header, &memory_, options.threads != 0 ? options.threads : hardware_threads()};
  opening.header.seed = io::hash_seed(this);
  opening.header.index_names = false;
  OpeningState reading(&memory_);
  read_headers(opening, pool_, shards_, reading);
  if (shards_.size() == 1) opening.threads = 1;

  for (Shard& shard : shards_) shard.checkpoint = this;

  Catalog& catalog = catalog_.emplace(&memory_);
  const std::optional<Error> in_two_shards = gather_tensors(opening, shards_, reading, catalog);

  require_different_files(shards_);
  if (reading.claims) catalog.warnings = check_all_claims(opening, shards_, reading, catalog);
  if (in_two_shards) throw Error(*in_two_shards);
  add_metadata(catalog, reading.index.metadata, shards_, opening.header.seed);
}

}  // namespace st::core
