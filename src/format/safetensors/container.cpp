// SPDX-License-Identifier: Apache-2.0
#include "format/container.hpp"

#include <algorithm>
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

// Returns kNowhere for a name that contained escapes, because its text is not a view into the header.
std::uint64_t place_of(std::string_view name, std::span<const char> header) {
  const std::size_t at = place_in(header, name.data());
  return at < header.size() ? kLengthBytes + at - 1 : kNowhere;
}

template <class Item>
ST_COLD void report_twice(const Item& item, std::span<const char> header, std::string_view what, FaultSink& faults) {
  const std::string_view name = item.name();
  const std::string_view tensor = std::is_same_v<Item, Tensor> ? name : std::string_view();
  faults.report({Status::duplicate, 0, place_of(name, header), formatted("{} {} occurs twice", what, in_quotes(name))},
                tensor);
}

// Inserts every item under its name. Reports duplicate names, except under the reference's rules, where the last one
// wins.
template <class Item>
void index_names(std::pmr::vector<Item>& items, const NameHashes& hashes, NameIndex<Item>& index,
                 std::span<const char> header, const HeaderOptions& options, std::string_view what, FaultSink& faults) {
  constexpr std::size_t kAhead = 8;  // each slot is a cache miss
  index.reset(items.size(), options.seed);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i + kAhead < items.size()) index.prefetch(hashes[i + kAhead]);
    if (kept != i) items[kept] = items[i];
    const std::uint32_t earlier = index.insert_hashed(items.data(), static_cast<std::uint32_t>(kept), hashes[i]);
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

template <class Item>
NameHashes hash_names(const std::pmr::vector<Item>& items, std::uint64_t seed) {
  NameHashes hashes(items.size(), items.get_allocator());
  for (std::size_t i = 0; i < items.size(); ++i) hashes[i] = NameIndex<Item>::hash(items[i].name(), seed);
  return hashes;
}

// Valid JSON contains no NUL, so every NUL in a header after read() replaced a closing quote.
void restore(std::span<const char>, const Table&, std::span<char> copy) {
  std::replace(copy.begin(), copy.end(), '\0', '"');
}

void read(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// If the offsets are invalid, rereads the header with an index, because a duplicate name is reported before that error.
void check_without_index(std::span<char> header, std::uint64_t file_size, HeaderOptions options, Table& table) try {
  if (is_plainly_valid(table, file_size)) return;
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
  NameHashes hashes(table.tensors.get_allocator());
  if (!parse_header(header, options, table, faults, options.index_names ? &hashes : nullptr)) return;
  index_names(table.metadata, hash_names(table.metadata, options.seed), table.metadata_index, header, options,
              "metadata key", faults);
  if (!options.index_names) return check_without_index(header, file_size, options, table);
  index_names(table.tensors, hashes, table.index, header, options, "tensor", faults);
  if (is_plainly_valid(table, file_size)) return;
  if (faults.count() != 0) {  // nothing uses the index after an error
    std::erase_if(table.tensors, [](const Tensor& tensor) { return tensor.dims == nullptr; });
    sort_by_data(table);
  } else if (sort_by_data(table)) {
    index_names(table.tensors, hash_names(table.tensors, options.seed), table.index, header, options, "tensor", faults);
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
