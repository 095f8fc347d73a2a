// SPDX-License-Identifier: Apache-2.0
#include "format/container.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/compiler.hpp"
#include "base/error.hpp"
#include "format/json/structure.hpp"
#include "format/length_prefix.hpp"
#include "format/safetensors/parse.hpp"
#include "format/safetensors/serialize.hpp"
#include "format/validate.hpp"

namespace st::format::safetensors {

namespace {

bool recognizes(char first) { return first == '{' || json::is_space(first); }

// Returns kNowhere for a name that contained escapes: its text is not a view into the header.
std::uint64_t place_of(std::string_view name, std::span<const char> header) {
  const bool inside = name.data() > header.data() && name.data() < header.data() + header.size();
  return inside ? kLengthBytes + static_cast<std::uint64_t>(name.data() - header.data()) - 1 : kNowhere;
}

// The hashes of a list of names, one after another. Computes a few of them ahead and fetches their slots, because each
// slot is a cache miss.
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

template <class Item>
ST_COLD void report_twice(const Item& item, std::span<const char> header, std::string_view what, FaultSink& faults) {
  const std::string_view name = item.name();
  const std::string_view tensor = std::is_same_v<Item, Tensor> ? name : std::string_view();
  faults.report({Status::duplicate, 0, place_of(name, header), formatted("{} {} occurs twice", what, in_quotes(name))},
                tensor);
}

// Inserts every item under its name. Reports a name that is given twice, except by the rules of the reference, which
// keeps the last.
template <class Item>
void index_names(std::pmr::vector<Item>& items, NameIndex<Item>& index, std::span<const char> header,
                 const HeaderOptions& options, std::string_view what, FaultSink& faults) {
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
    if (options.rules == Rules::reference) {
      items[earlier] = items[i];
    } else {
      report_twice(items[i], header, what, faults);
      ++kept;
    }
  }
  items.resize(kept);
}

// JSON allows no NUL, so every NUL in a header that was read replaced a closing quote.
void restore(std::span<const char>, const Table&, std::span<char> copy) {
  std::replace(copy.begin(), copy.end(), '\0', '"');
}

void read(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// Reads the header again with an index after an error of the offsets, because a duplicate name is reported first.
void check_without_index(std::span<char> header, std::uint64_t file_size, HeaderOptions options, Table& table) try {
  FaultSink first;
  sort_by_data(table);
  validate(table, file_size, first);
} catch (const Error&) {
  restore(header, table, header);
  table.clear();
  options.index_names = true;
  read(header, file_size, options, table);
}

void read_reporting(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table,
                    FaultSink& faults) {
  table.data_begin = kLengthBytes + header.size();
  if (!parse_header(header, options, table, faults)) return;
  index_names(table.metadata, table.metadata_index, header, options, "metadata key", faults);
  if (!options.index_names) return check_without_index(header, file_size, options, table);
  index_names(table.tensors, table.index, header, options, "tensor", faults);
  if (faults.count() != 0) {  // nothing uses the index after an error
    std::erase_if(table.tensors, [](const Tensor& tensor) { return tensor.dims == nullptr; });
    sort_by_data(table);
  } else if (sort_by_data(table)) {
    index_names(table.tensors, table.index, header, options, "tensor", faults);
  }
  validate(table, file_size, faults);
}

void read(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  FaultSink first;
  read_reporting(header, file_size, options, table, first);
}

void diagnose(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings) {
  HeaderOptions with_index = options;
  with_index.index_names = true;
  FaultSink faults(findings);
  Table table(std::pmr::new_delete_resource());
  try {
    read_reporting(header, file_size, with_index, table, faults);
  } catch (const Error&) {
    // There are more than kMostFindings, and this error is among them.
  }
}

unsigned write_order(Dtype dtype) { return info(dtype).write_order; }

}  // namespace

const Container kContainer{Format::safetensors, "safetensors", recognizes,      extent_by_length, read, restore, check,
                           write_order,         append_header, splice_metadata, diagnose};

}  // namespace st::format::safetensors
