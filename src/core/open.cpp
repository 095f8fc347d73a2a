// Opening: one file, or every shard of a model, whose headers are read on several threads.
//
// All headers are read now, so that looking can never fail later. What the index says of a shard is held against the
// shard on the thread that read it, while its names are at hand.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "base/parallel_for.hpp"
#include "core/checkpoint.hpp"
#include "core/file.hpp"
#include "format/index_json.hpp"
#include "io/folder.hpp"
#include "io/random.hpp"

namespace st::core {

namespace {

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

// Every tensor that the index puts into this shard is there, once. Returns how many of the shard's tensors it lists.
void check_claims(const Shard& shard, const format::IndexFile& index, const Claims& claims, bool strict,
                  std::string& warning) {
  const Table& table = shard.table;
  std::pmr::vector<bool> listed(table.tensors.size(), false, shard.memory);
  const auto say = [&](Status status, std::string_view name, std::string_view what) {
    fail(status, "index: tensor {} {} {}", quoted(name), what, quoted(index.shards[shard.number]));
  };
  const std::size_t first = claims.first[shard.number];
  const std::size_t end = claims.first[shard.number + 1];
  for (std::size_t i = first; i < end; ++i) {
    const std::string_view name = index.entries[claims.entries[i]].tensor;
    const std::uint32_t number = table.index.find(table.tensors.data(), name);
    if (number == table.index.kNone) say(Status::shard, name, "is not in its shard");
    if (listed[number]) say(Status::duplicate, name, "is given twice, for shard");
    listed[number] = true;
  }
  const auto unlisted = static_cast<std::size_t>(std::find(listed.begin(), listed.end(), false) - listed.begin());
  if (unlisted == listed.size()) return;
  warning = fmt::format("shard {} holds {} tensors that the index does not list, the first is {}", quoted(shard.path),
                        table.tensors.size() - (end - first), quoted(table.tensors[unlisted].name()));
  if (strict) fail(Status::shard, "{}", warning);
}

[[noreturn]] void rethrow_for_shard(const Error& error, std::string_view name) {
  Error told = error;
  const bool missing = error.status == Status::open && error.os_error == ENOENT;
  if (missing) told.status = Status::shard;
  if (missing) {
    told.message = fmt::format("shard {} is missing", quoted(name));
  } else if (error.message.find(name) == std::string::npos) {
    told.message = fmt::format("shard {}: {}", quoted(name), error.message);
  }
  throw told;
}

}  // namespace

FilePtr File::open(io::Source source, const OpenOptions& options) {
  FilePtr file = create(options.allocator);
  Shard& shard = file->shards_.emplace_back(&file->memory_);
  shard.source = std::move(source);
  format::HeaderOptions header = options.header;
  header.seed = io::random_seed();
  load(shard, options.io, header);
  return file;
}

FilePtr File::open(const char* path, const OpenOptions& options) {
  if (is_index_name(path)) return open_checkpoint(checkpoint_of_index(path), options);
  std::optional<io::PlainFile> plain = io::PlainFile::open_unless_folder(path);
  if (!plain) return open_checkpoint(checkpoint_of_folder(path), options);
  const std::uint64_t size = plain->size();
  FilePtr file = open(io::Source::file(std::move(*plain), 0, size), options);
  file->shards_.front().path = path;
  return file;
}

FilePtr File::open_checkpoint(const Checkpoint& checkpoint, const OpenOptions& options) {
  if (checkpoint.index.empty() && checkpoint.files.size() == 1) {
    const std::string path = checkpoint.folder + "/" + checkpoint.files.front();
    return open(path.c_str(), options);
  }
  FilePtr file = create(options.allocator);
  file->load_shards(checkpoint, options);
  return file;
}

void File::load_shards(const Checkpoint& checkpoint, const OpenOptions& options) {
  format::HeaderOptions header = options.header;
  header.seed = io::random_seed();
  const io::Folder folder = io::Folder::open(checkpoint.folder);

  Catalog& catalog = catalog_.emplace(&memory_);
  format::IndexFile index(&memory_);
  Text text;
  if (checkpoint.index.empty()) {
    index.shards.assign(checkpoint.files.begin(), checkpoint.files.end());
  } else {
    text = read_text(folder.file(checkpoint.index, /*follow_links=*/true), options, &memory_);
    format::read_index(text.bytes(), header, index);
  }
  const Claims claims(index, &memory_);
  const bool check = !checkpoint.index.empty();
  const bool strict = header.rules == format::Rules::strict;

  const std::size_t count = index.shards.size();
  for (std::size_t i = 0; i < count; ++i) shards_.emplace_back(&memory_).number = i;
  std::vector<std::optional<Error>> errors(count);
  std::vector<std::string> warnings(count);
  const unsigned threads = options.threads != 0 ? options.threads : hardware_threads();
  parallel_for(count, threads, [&](std::size_t i) {
    Shard& shard = shards_[i];
    try {
      io::PlainFile plain = folder.file(std::string(index.shards[i]), options.follow_links);
      shard.path = plain.path();
      const std::uint64_t size = plain.size();
      shard.source = io::Source::file(std::move(plain), 0, size);
      load(shard, options.io, header);
      if (check) check_claims(shard, index, claims, strict, warnings[i]);
    } catch (const Error& error) {
      errors[i] = error;
    }
  });
  // Always the same one of several errors, whichever thread was first.
  for (std::size_t i = 0; i < count; ++i) {
    if (errors[i]) rethrow_for_shard(*errors[i], index.shards[i]);
  }

  gather(shards_, header.seed, catalog);
  add_metadata(catalog, index.metadata, shards_);
  for (std::string& warning : warnings) {
    if (!warning.empty()) catalog.warnings.push_back(std::move(warning));
  }
}

}  // namespace st::core
