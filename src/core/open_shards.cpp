// Opening all shards of a model, on several threads.
//
// All headers are read now, so that looking can never fail later. The index alone says which shards there are.
// Reading it takes as long as reading some shards, so the shards found in the folder are opened at the same time, and
// dropped when the index says otherwise. Then what the index says of each shard is held against it, while all tensors get their
// places in the catalog.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "core/checkpoint.hpp"
#include "core/file.hpp"
#include "format/shard_index/shard_index.hpp"
#include "io/folder.hpp"
#include "io/random.hpp"

namespace st::core {

namespace {

// A header and its table mostly take so much. Where there are more of them, the pool grows.
std::size_t likely_bytes(std::size_t shards) {
  return std::clamp<std::size_t>(shards, 1, 256) * (std::size_t{64} << 10);
}

unsigned threads_of(const OpenOptions& options) { return options.threads != 0 ? options.threads : hardware_threads(); }

Text read_text(const io::PlainFile& file, const OpenOptions& options, std::pmr::memory_resource* memory) {
  const std::uint64_t limit = std::min(options.header.max_bytes, format::kMaxHeaderBytes);
  if (file.size() > limit) fail(Status::header_size, "index: {} bytes long, the limit is {}", file.size(), limit);
  Text text(static_cast<std::size_t>(file.size()), memory);
  file.read_at(0, text.data(), text.size());
  return text;
}

// What the index says of each shard: the entries' numbers, shard after shard.
struct Claims {
  std::pmr::vector<std::uint32_t> entries;
  std::pmr::vector<std::size_t> first;  // per shard, and one more

  Claims(const format::IndexFile& index, std::pmr::memory_resource* memory)
      : entries(index.entries.size(), memory), first(index.shards.size() + 2, memory) {
    for (const format::IndexEntry& entry : index.entries) ++first[entry.shard + 2];
    for (std::size_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
    for (std::uint32_t i = 0; i < index.entries.size(); ++i) entries[first[index.entries[i].shard + 1]++] = i;
  }
};

// Finds the tensors of a shard that the index names. The index mostly names them in the order of the shard, or in two
// such sequences that alternate: the next tensor of each is compared before a name is hashed.
class InOrder {
 public:
  explicit InOrder(const Table& table) : table_(table) {}

  // kNone if there is no such tensor.
  std::uint32_t find(std::string_view name) {
    for (std::uint32_t& next : next_) {
      if (next < table_.tensors.size() && table_.tensors[next].name() == name) return next++;
    }
    const std::uint32_t number = table_.index.find(table_.tensors.data(), name);
    if (number == table_.index.kNone) return number;
    next_[1] = next_[0];
    next_[0] = number + 1;
    return number;
  }

 private:
  const Table& table_;
  std::array<std::uint32_t, 2> next_{};
};

// Every tensor that the index puts into this shard is there, once. A warning where the shard holds more.
void check_claims(const Shard& shard, const format::IndexFile& index, const Claims& claims, bool strict,
                  std::string& warning) {
  const Table& table = shard.table;
  std::vector<bool> listed(table.tensors.size());
  const auto say = [&](Status status, std::string_view name, std::string_view what) {
    fail(status, "index: tensor {} {} {}", in_quotes(name), what, in_quotes(index.shards[shard.number]));
  };
  const std::size_t first = claims.first[shard.number];
  const std::size_t end = claims.first[shard.number + 1];
  InOrder tensors(table);
  for (std::size_t i = first; i < end; ++i) {
    const std::string_view name = index.entries[claims.entries[i]].tensor;
    const std::uint32_t number = tensors.find(name);
    if (number == table.index.kNone) say(Status::shard, name, "is not in its shard");
    if (listed[number]) say(Status::duplicate, name, "is given twice, for shard");
    listed[number] = true;
  }
  const auto unlisted = static_cast<std::size_t>(std::find(listed.begin(), listed.end(), false) - listed.begin());
  if (unlisted == listed.size()) return;
  warning =
      fmt::format("shard {} holds {} tensors that the index does not list, the first is {}", in_quotes(shard.path),
                  table.tensors.size() - (end - first), in_quotes(table.tensors[unlisted].name()));
  if (strict) fail(Status::shard, "{}", warning);
}

Error told_of_shard(Error error, std::string_view name, std::string_view index) {
  if (error.status == Status::open && error.os_error == ENOENT) {
    error.status = Status::shard;
    error.message = index.empty() ? fmt::format("shard {} is missing", in_quotes(name))
                                  : fmt::format("index {}: shard {} is missing", in_quotes(index), in_quotes(name));
  } else if (error.message.find(name) == std::string::npos) {
    error.message = fmt::format("shard {}: {}", in_quotes(name), error.message);
  }
  return error;
}

// Always the same one of several errors, whichever thread was first. `names` are those of the shards in question.
template <class Names>
std::optional<Error> first_of(const std::vector<std::optional<Error>>& errors, const Names& names,
                              std::string_view index) {
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (errors[i]) return told_of_shard(*errors[i], names[i], index);
  }
  return std::nullopt;
}

void load_one(Shard& shard, std::string_view name, const io::Folder& folder, const OpenOptions& options,
              const format::ReadOptions& header) {
  io::PlainFile plain = folder.file(std::string(name), options.follow_links);
  shard.path = plain.path();
  const std::uint64_t size = plain.size();
  shard.source = io::Source::file(std::move(plain), 0, size);
  load(shard, options.io, header);
}

// Reads the headers of these files, and does `besides`, on several threads. In batches, each twice as long as the one
// before: an index may name a million shards that are not there, and nothing is made for those that come long after
// the first fault, which is what is returned.
template <class Name>
std::optional<Error> load_all(std::pmr::deque<Shard>& shards, std::pmr::memory_resource* memory,
                              std::span<const Name> names, std::string_view index, const io::Folder& folder,
                              const OpenOptions& options, const format::ReadOptions& header,
                              const std::function<void()>& besides) {
  constexpr std::size_t kFirstBatch = 256;
  do {
    const std::size_t first = shards.size();
    const auto batch = names.subspan(first, std::min(std::max(first, kFirstBatch), names.size() - first));
    for (std::size_t i = 0; i < batch.size(); ++i) shards.emplace_back(memory).number = first + i;
    std::vector<std::optional<Error>> errors(batch.size());
    parallel_for(batch.size() + 1, threads_of(options), [&](std::size_t round) {
      if (round == 0) return first == 0 ? besides() : void();
      const std::size_t i = round - 1;
      try {
        load_one(shards[first + i], batch[i], folder, options, header);
      } catch (const Error& error) {
        errors[i] = error;
      }
    });
    if (auto fault = first_of(errors, batch, index)) return fault;
  } while (shards.size() < names.size());
  return std::nullopt;
}

}  // namespace

void File::load_shards(const Checkpoint& checkpoint, const OpenOptions& options) {
  format::ReadOptions header = options.header;
  header.seed = io::hash_seed(this);
  const io::Folder folder = io::Folder::open(checkpoint.folder);
  const bool has_index = !checkpoint.index.empty();

  format::IndexFile index(&memory_);
  Text text;
  std::optional<Claims> claims;
  const auto read_index = [&] {
    if (!has_index) return;
    text = read_text(folder.file(checkpoint.index, /*follow_links=*/true), options, &memory_);
    format::read_index(text.bytes(), header, index);
    claims.emplace(index, &memory_);
  };
  const std::span<const std::string> names = checkpoint.files;
  auto fault = load_all(shards_, &pool_.emplace(likely_bytes(names.size()), &memory_), names, checkpoint.index, folder,
                        options, header, read_index);
  if (!has_index) index.shards.assign(names.begin(), names.end());
  if (!std::equal(names.begin(), names.end(), index.shards.begin(), index.shards.end())) {
    shards_.clear();
    const std::span<const std::string_view> said = index.shards;
    fault = load_all(shards_, &pool_.emplace(likely_bytes(said.size()), &memory_), said, checkpoint.index, folder,
                     options, header, [] {});
  }
  if (fault) throw Error(*fault);

  Catalog& catalog = catalog_.emplace(&memory_);
  std::vector<std::string> warnings(shards_.size());
  std::vector<std::optional<Error>> errors(shards_.size());
  std::optional<Error> twice;
  parallel_for(claims ? 1 + shards_.size() : 1, threads_of(options), [&](std::size_t round) {
    std::optional<Error>& error = round == 0 ? twice : errors[round - 1];
    try {
      if (round == 0) return gather(shards_, header.seed, catalog);
      const std::size_t i = round - 1;
      check_claims(shards_[i], index, *claims, header.rules == format::Rules::strict, warnings[i]);
    } catch (const Error& caught) {
      error = caught;
    }
  });
  if (fault = first_of(errors, index.shards, checkpoint.index); fault) throw Error(*fault);
  if (twice) throw Error(*twice);

  for (Shard& shard : shards_) shard.table.index = NameIndex<Tensor>(&memory_);  // the catalog has one for all
  add_metadata(catalog, index.metadata, shards_, header.seed);
  for (std::string& warning : warnings) {
    if (!warning.empty()) catalog.warnings.push_back(std::move(warning));
  }
}

}  // namespace st::core
