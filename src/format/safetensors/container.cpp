// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/container.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "format/json/structure.hpp"
#include "format/length_prefix.hpp"
#include "format/safetensors/parse.hpp"
#include "format/safetensors/serialize.hpp"
#include "format/safetensors/splice_metadata.hpp"
#include "format/safetensors/survey.hpp"
#include "format/validate.hpp"

namespace st::format::safetensors {

namespace {

bool recognizes(char first) { return first == '{' || json::is_space(first); }

// A name that had to be unescaped no longer stands in the header.
std::uint64_t place_of(std::string_view name, std::span<const char> header) {
  const bool inside = name.data() > header.data() && name.data() < header.data() + header.size();
  return inside ? kLengthBytes + static_cast<std::uint64_t>(name.data() - header.data()) - 1 : kNowhere;
}

// The hashes of a list of names, one after another. A few of them are made ahead and their places fetched, so that
// nobody waits for memory.
template <class Item, class NameAt>
class HashesAhead {
 public:
  HashesAhead(const NameIndex<Item>& index, std::size_t count, NameAt name_at)
      : index_(index), name_at_(name_at), count_(count) {
    for (std::size_t i = 0; i < kAhead; ++i) make(i);
  }

  std::uint32_t next() {
    const std::uint32_t hash = hashes_[at_ % kAhead];
    make(at_ + kAhead);
    ++at_;
    return hash;
  }

 private:
  static constexpr std::size_t kAhead = 8;

  void make(std::size_t i) {
    if (i >= count_) return;
    hashes_[i % kAhead] = index_.hash(name_at_(i));
    index_.prefetch(hashes_[i % kAhead]);
  }

  const NameIndex<Item>& index_;
  NameAt name_at_;
  std::size_t count_;
  std::size_t at_ = 0;
  std::array<std::uint32_t, kAhead> hashes_{};
};

// Every item under its name. Where a name comes twice, the reference keeps the last and we refuse.
template <class Item>
void index_names(std::pmr::vector<Item>& items, NameIndex<Item>& index, std::span<const char> header,
                 const HeaderOptions& options, std::string_view what) {
  index.reset(items.size(), options.seed);
  HashesAhead hashes(index, items.size(), [&items](std::size_t i) { return items[i].name(); });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (kept != i) items[kept] = items[i];
    const std::uint32_t earlier = index.insert_hashed(items.data(), static_cast<std::uint32_t>(kept), hashes.next());
    if (earlier == NameIndex<Item>::kNone) {
      ++kept;
      continue;
    }
    if (options.rules != Rules::reference) {
      const std::string_view name = items[i].name();
      fail_at(Status::duplicate, place_of(name, header), "{} {} is given twice", what, in_quotes(name));
    }
    items[earlier] = items[i];
  }
  items.resize(kept);
}

// A NUL is legal nowhere in a JSON header: whatever NUL stands there now was a closing quote.
void restore(std::span<const char>, const Table&, std::span<char> copy) {
  std::replace(copy.begin(), copy.end(), '\0', '"');
}

void read(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// A name given twice comes before every fault of the offsets, so where there is one, the header is read with an index.
void check_without_index(std::span<char> header, std::uint64_t file_size, HeaderOptions options, Table& table) try {
  sort_by_data(table);
  validate(table, file_size);
} catch (const Error&) {
  restore(header, table, header);
  table.clear();
  options.index_names = true;
  read(header, file_size, options, table);
}

void read(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  table.data_begin = kLengthBytes + header.size();
  parse_header(header, options, table);
  index_names(table.metadata, table.metadata_index, header, options, "metadata key");
  if (!options.index_names) return check_without_index(header, file_size, options, table);
  index_names(table.tensors, table.index, header, options, "tensor");
  if (sort_by_data(table)) index_names(table.tensors, table.index, header, options, "tensor");
  validate(table, file_size);
}

unsigned dtype_rank(Dtype dtype) { return info(dtype).rank; }

}  // namespace

const Container kContainer{.format = Format::safetensors,
                           .name = "safetensors",
                           .recognizes = recognizes,
                           .header_extent = extent_by_length,
                           .read = read,
                           .restore = restore,
                           .check = check,
                           .dtype_rank = dtype_rank,
                           .append = append_header,
                           .splice_metadata = splice_metadata,
                           .survey = survey};

}  // namespace st::format::safetensors
