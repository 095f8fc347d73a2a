// SPDX-License-Identifier: Apache-2.0
#include "format/shard_index/shard_index.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "format/json/cursor.hpp"
#include "format/table.hpp"
#include "format/utf8.hpp"

namespace st::format::shard_index {

namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  fail(Status::shard, "index: shard name {} {}", in_quotes(name), why);
}

struct ShardName {
  std::string_view text;
  std::string_view name() const { return text; }
};

// Removes the first component of a path and returns it. Skips empty components and ".", which change nothing. Returns
// "" at the end.
std::string_view take_part(std::string_view& path) {
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (!part.empty() && part != ".") return part;
  }
  return {};
}

bool is_same_path(std::string_view a, std::string_view b) {
  for (;;) {
    const std::string_view part = take_part(a);
    if (part != take_part(b)) return false;
    if (part.empty()) return true;
  }
}

bool has_redundant_parts(std::string_view name) {
  return name == "." || starts_with(name, "./") || ends_with(name, "/") || ends_with(name, "/.") ||
         name.find("//") != name.npos || name.find("/./") != name.npos;
}

// Returns the same hash for every spelling of a path.
std::uint64_t hash_path(std::string_view path, std::uint64_t seed) {
  std::uint64_t hash = seed;
  for (std::string_view part = take_part(path); !part.empty(); part = take_part(path)) hash = hash_name(part, hash);
  return hash;
}

// Throws if two of the names are spellings of the same path. Compares hashes: an index may contain millions of names,
// and normalized copies would take several times its size.
void require_different_paths(const std::pmr::vector<std::string_view>& shards, std::uint64_t seed) {
  if (std::none_of(shards.begin(), shards.end(), has_redundant_parts)) return;
  struct Hashed {
    std::uint64_t hash;
    std::size_t shard;
    bool operator<(const Hashed& other) const { return hash != other.hash ? hash < other.hash : shard < other.shard; }
  };
  std::pmr::vector<Hashed> paths(shards.get_allocator());
  paths.reserve(shards.size());
  for (const std::string_view name : shards) paths.push_back({hash_path(name, seed), paths.size()});
  std::sort(paths.begin(), paths.end());
  std::size_t first = shards.size();
  std::size_t second = shards.size();
  for (std::size_t i = 1; i < paths.size(); ++i) {
    const Hashed& a = paths[i - 1];
    const Hashed& b = paths[i];
    if (a.hash != b.hash || b.shard >= second || !is_same_path(shards[a.shard], shards[b.shard])) continue;
    first = a.shard;
    second = b.shard;
  }
  if (second == shards.size()) return;
  if (shards[second].size() < shards[first].size()) std::swap(first, second);  // the shortest spelling is the plain one
  fail(Status::shard, "index: shards {} and {} are the same file", in_quotes(shards[first]), in_quotes(shards[second]));
}

class IndexParser {
 public:
  IndexParser(std::span<char> text, const HeaderOptions& options, Index& index)
      : in_(text, 0, &index.arena, options.window_bytes),
        index_(index),
        known_(index.shards.get_allocator().resource()),
        names_(index.shards.get_allocator().resource()),
        known_keys_(index.shards.get_allocator().resource()),
        seed_(options.seed),
        last_key_counts_(options.rules == Rules::reference) {
    in_.document = "index";
  }

  void index() {
    if (!in_.take('{')) in_.wrong_type(0, "is not an object");
    if (!in_.take('}')) {
      do {
        member();
      } while (in_.take(','));
      in_.expect('}');
    }
    in_.expect_end();
    if (!weight_map_seen_) in_.fail_here(Status::schema, in_.tokens.text_begin, "has no weight_map");
    if (index_.entries.empty()) in_.fail_here(Status::schema, weight_map_, "weight_map lists no tensor");
    sort_shards();
    require_different_paths(index_.shards, seed_);
  }

 private:
  void member() {
    const char* const place = in_.behind();
    const std::string_view name = in_.string();
    in_.expect(':');
    if (name == "weight_map") {
      if (weight_map_seen_) in_.fail_here(Status::duplicate, place, "weight_map occurs twice");
      weight_map_seen_ = true;
      weight_map_ = place;
      return weight_map();
    }
    if (name == "metadata") {
      if (metadata_seen_) in_.fail_here(Status::duplicate, place, "metadata occurs twice");
      metadata_seen_ = true;
      return metadata();
    }
    in_.skip_value(1);
  }

  void weight_map() {
    if (!in_.take('{')) in_.wrong_type(1, "weight_map is not an object");
    if (in_.take('}')) return;
    do {
      const std::string_view tensor = in_.string();
      in_.expect(':');
      if (in_.peek() != '"') in_.wrong_type(2, "weight_map gives no file name for tensor " + in_quotes(tensor));
      auto& entries = index_.entries;
      if (entries.size() == entries.capacity()) entries.reserve(in_.expected_items(entries.size(), 8));
      entries.push_back({tensor, shard_number(in_.string())});
    } while (in_.take(','));
    in_.expect('}');
  }

  // Consecutive tensors are usually in the same file.
  std::uint32_t shard_number(std::string_view name) {
    if (last_ < names_.size() && names_[last_].text == name) return last_;
    if (names_.size() == known_room_) grow();
    const auto next = static_cast<std::uint32_t>(names_.size());
    names_.push_back({name});
    last_ = known_.insert(names_.data(), next);
    if (last_ == NameIndex<ShardName>::kNone) {
      require_safe_name(name);
      last_ = next;
    } else {
      names_.pop_back();
    }
    return last_;
  }

  void grow() {
    known_room_ = std::max<std::size_t>(64, 2 * names_.size());
    known_.reset(known_room_, seed_);
    for (std::uint32_t i = 0; i < names_.size(); ++i) known_.insert(names_.data(), i);
  }

  void metadata() {
    if (!in_.take('{')) in_.wrong_type(1, "metadata is not an object");
    if (in_.take('}')) return;
    do {
      const char* const place = in_.at();
      const std::string_view key = in_.string();
      in_.expect(':');
      const char* const first = in_.at();
      std::string_view value;
      if (*first == '"') {
        value = in_.string();
      } else {
        in_.skip_value(2);
        value = {first, static_cast<std::size_t>(in_.behind() - first)};
      }
      add_metadata({keep(key), keep(value)}, place);
    } while (in_.take(','));
    in_.expect('}');
  }

  // As in a header, a repeated key is an error, except with the reference's rules.
  void add_metadata(const MetadataPair& pair, const char* place) {
    auto& pairs = index_.metadata;
    if (pairs.size() == known_keys_room_) {
      known_keys_room_ = std::max<std::size_t>(64, 2 * pairs.size());
      known_keys_.reset(known_keys_room_, seed_);
      for (std::uint32_t i = 0; i < pairs.size(); ++i) known_keys_.insert(pairs.data(), i);
    }
    pairs.push_back(pair);
    const std::uint32_t earlier = known_keys_.insert(pairs.data(), static_cast<std::uint32_t>(pairs.size() - 1));
    if (earlier == NameIndex<MetadataPair>::kNone) return;
    if (!last_key_counts_) {
      in_.fail_here(Status::duplicate, place, formatted("metadata key {} occurs twice", in_quotes(pair.key)));
    }
    pairs[earlier] = pair;
    pairs.pop_back();
  }

  std::string_view keep(std::string_view text) { return copy_text(index_.arena, text); }

  void sort_shards() {
    std::pmr::vector<std::uint32_t> order(names_.size(), 0U, names_.get_allocator().resource());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [this](auto a, auto b) { return names_[a].text < names_[b].text; });
    std::pmr::vector<std::uint32_t> place(names_.size(), 0U, names_.get_allocator().resource());
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      index_.shards.push_back(names_[order[i]].text);
    }
    for (Entry& entry : index_.entries) entry.shard = place[entry.shard];
  }

  json::Cursor in_;
  Index& index_;
  NameIndex<ShardName> known_;
  std::pmr::vector<ShardName> names_;
  std::size_t known_room_ = 0;
  NameIndex<MetadataPair> known_keys_;
  std::size_t known_keys_room_ = 0;
  std::uint64_t seed_;
  bool last_key_counts_;
  std::uint32_t last_ = 0;
  const char* weight_map_ = nullptr;  // its place in the text
  bool weight_map_seen_ = false;
  bool metadata_seen_ = false;
};

}  // namespace

void read(std::span<char> text, const HeaderOptions& options, Index& index) {
  try {
    IndexParser(text, options, index).index();
  } catch (const Error&) {
    require_utf8({text.data(), text.size()}, 0, "index");  // reported before any other error
    throw;
  }
}

void require_safe_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (name.empty()) refuse(name, "is empty");
  if (name.find('\0') != name.npos) refuse(name, "contains a NUL");
  if (name.find('\\') != name.npos) refuse(name, "contains a backslash");
  if (name.front() == '/') refuse(name, "is absolute");
  if (name.size() >= 2 && is_letter(name[0]) && name[1] == ':') refuse(name, "begins with a drive letter");
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") refuse(name, "leaves the directory of the index");
    at = end + 1;
  }
}

}  // namespace st::format::shard_index
