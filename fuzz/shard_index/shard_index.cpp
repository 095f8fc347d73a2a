// Parses any bytes as the index of a sharded model. The result must not depend on how much of the text is indexed at a
// time, and an accepted shard name must stay in the index's directory.
// SPDX-License-Identifier: Apache-2.0
#include "format/shard_index/shard_index.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "../fuzz.hpp"
#include "base/error.hpp"

namespace {

using fuzz::require;
using namespace st::format;

// The index points into the text.
struct Reading {
  std::unique_ptr<char[]> text;
  shard_index::Index index{std::pmr::new_delete_resource()};
  std::optional<st::Error> error;
};

std::unique_ptr<Reading> read(std::string_view text, std::size_t window, Rules rules) {
  auto reading = std::make_unique<Reading>();
  reading->text = std::make_unique<char[]>(text.size() + kPadding);
  std::ranges::copy(text, reading->text.get());
  HeaderOptions options;
  options.rules = rules;
  options.window_bytes = window;
  try {
    shard_index::read({reading->text.get(), text.size()}, options, reading->index);
  } catch (const st::Error& error) {
    reading->error = error;
  }
  return reading;
}

bool is_inside(std::string_view name) {
  const std::filesystem::path path = std::filesystem::path(std::string(name)).lexically_normal();
  return path.is_relative() && (path.empty() || *path.begin() != "..");
}

void check(const shard_index::Index& index) {
  require(!index.shards.empty(), "there is a shard");
  require(std::ranges::is_sorted(index.shards), "shards are in byte order");
  require(std::ranges::adjacent_find(index.shards) == index.shards.end(), "each shard is listed once");
  for (const shard_index::Entry& entry : index.entries)
    require(entry.shard < index.shards.size(), "an entry has a shard");
  for (const MetadataPair& pair : index.metadata)
    require(pair.key.data()[pair.key.size()] == '\0' && pair.value.data()[pair.value.size()] == '\0',
            "metadata ends in a NUL");
  for (const std::string_view name : index.shards) {
    try {
      shard_index::require_safe_name(name);
    } catch (const st::Error&) {
      continue;
    }
    require(is_inside(name), "a safe name stays in the directory");
  }
}

bool same_entry(const shard_index::Entry& a, const shard_index::Entry& b) {
  return a.tensor == b.tensor && a.shard == b.shard;
}

bool same_pair(const MetadataPair& a, const MetadataPair& b) { return a.key == b.key && a.value == b.value; }

void compare(const Reading& a, const Reading& b) {
  require(a.error.has_value() == b.error.has_value(), "both verdicts are the same");
  if (a.error) {
    require(a.error->status == b.error->status && a.error->offset == b.error->offset, "both faults are the same");
    return;
  }
  require(std::ranges::equal(a.index.shards, b.index.shards), "both have the same shards");
  require(std::ranges::equal(a.index.entries, b.index.entries, same_entry), "both have the same entries");
  require(std::ranges::equal(a.index.metadata, b.index.metadata, same_pair), "both have the same metadata");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Rules rules : {Rules::standard, Rules::strict, Rules::reference}) {
    const auto usual = read(text, kWindowBytes, rules);
    compare(*usual, *read(text, 64, rules));
    if (!usual->error) {
      check(usual->index);
    } else {
      require(static_cast<int>(usual->error->status) >= 300 && static_cast<int>(usual->error->status) < 400,
              "a refusal blames the file");
      require(usual->error->offset <= size || usual->error->offset == st::kNowhere, "a refusal points into the text");
    }
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return fuzz::mutate_json(data, size, most, seed);
}
