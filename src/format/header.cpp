// The order of the checks is the order of docs/format.md 1.1, because the first that fails names the error.
// SPDX-License-Identifier: Apache-2.0
#include "format/header.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "format/bintensors.hpp"
#include "format/parse.hpp"
#include "format/sniff.hpp"
#include "format/validate.hpp"

namespace st {

const char* Tensor::dtype_name() const {
  if (dtype() != Dtype::unknown) return info(dtype()).name.data();
  return reinterpret_cast<const char*>(static_cast<std::uintptr_t>(dims[rank]));
}

}  // namespace st

namespace st::format {

namespace {

std::uint64_t little_endian_64(std::span<const char> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

bool is_bintensors(char first, const HeaderOptions& options) {
  return options.rules != Rules::reference && may_begin_bintensors(first);
}

bool may_begin_header(std::span<const char> prefix, std::uint64_t length, const HeaderOptions& options) {
  constexpr std::string_view kJson = "{ \t\r\n";
  if (prefix.size() <= kLengthBytes) return false;
  const char first = prefix[kLengthBytes];
  return kJson.find(first) != std::string_view::npos || (length > 0 && is_bintensors(first, options));
}

// A name that had to be unescaped no longer stands in the header.
std::uint64_t place_of(std::string_view name, std::span<const char> header) {
  const bool inside = name.data() > header.data() && name.data() < header.data() + header.size();
  return inside ? kLengthBytes + static_cast<std::uint64_t>(name.data() - header.data()) - 1 : kNowhere;
}

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

}  // namespace

std::uint64_t measure(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options) {
  if (file_size < kLengthBytes) {
    refuse_other_kinds(prefix, file_size);
    fail_at(Status::truncated, file_size, "the file has {} bytes, and a header's length alone takes 8", file_size);
  }
  const std::uint64_t length = little_endian_64(prefix);
  const std::uint64_t limit = std::min(options.max_bytes, kMaxHeaderBytes);
  if (length > limit || length > file_size - kLengthBytes || !may_begin_header(prefix, length, options)) {
    refuse_other_kinds(prefix, file_size);
  }
  if (length > limit) fail_at(Status::header_size, 0, "the header is {} bytes long, the limit is {}", length, limit);
  if (length > file_size - kLengthBytes) {
    fail_at(Status::truncated, file_size, "the header is {} bytes long, the file has only {} after its length", length,
            file_size - kLengthBytes);
  }
  return length;
}

void read_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  table.data_begin = kLengthBytes + header.size();
  if (!header.empty() && is_bintensors(header.front(), options))
    return read_bintensors(header, file_size, options, table);
  parse_header(header, options, table);
  index_names(table.metadata, table.metadata_index, header, options, "metadata key");
  index_names(table.tensors, table.index, header, options, "tensor");
  if (sort_by_data(table)) index_names(table.tensors, table.index, header, options, "tensor");
  validate(table, file_size);
}

// A NUL is legal nowhere in a JSON header: whatever NUL stands there now was a closing quote.
void restore_header(std::span<const char> header, const Table& table, char* out) {
  std::copy(header.begin(), header.end(), out);
  if (table.format != Format::safetensors) return restore_bintensors(header, table, out);
  std::replace(out, out + header.size(), '\0', '"');
}

}  // namespace st::format
