// Compiled twice: with the current sources, and with the sources of the earlier revision, whose namespace is renamed.
// SPDX-License-Identifier: Apache-2.0
#include "reading.hpp"

#include <cstring>
#include <memory>
#include <memory_resource>

#include "base/error.hpp"
#include "format/header.hpp"
#if __has_include("format/shard_index/shard_index.hpp")
#include "format/shard_index/shard_index.hpp"
using Options = st::format::HeaderOptions;
using Index = st::format::shard_index::Index;
namespace nouns = st::format;
constexpr auto read_the_index = st::format::shard_index::read;
#else
#include "format/index_json.hpp"
using Options = st::format::HeaderOptions;
using Index = st::format::IndexFile;
namespace nouns = st;
constexpr auto read_the_index = st::format::read_index;
#endif

namespace differential {

namespace {

// Copies into memory of exactly this size, so a sanitizer notices any access beyond it.
std::unique_ptr<char[]> padded(std::string_view text) {
  auto copy = std::make_unique<char[]>(text.size() + st::format::kPadding);
  std::memcpy(copy.get(), text.data(), text.size());
  return copy;
}

void append(std::string& out, std::string_view text) {
  out += fmt::format("{}:", text.size());
  out += text;
}

std::string text_of(const nouns::Table& table, std::span<const char> header, std::string_view original) {
  std::string out = fmt::format("{} {} {}\n", static_cast<int>(table.format), table.data_begin, table.has_metadata);
  for (const nouns::Tensor& tensor : table.tensors) {
    append(out, tensor.name());
    append(out, tensor.dtype_name());
    out += fmt::format(" {}..{}", tensor.begin, tensor.end);
    for (const std::uint64_t dimension : tensor.shape()) out += fmt::format(",{}", dimension);
    const auto place = static_cast<std::size_t>(&tensor - table.tensors.data());
    const bool found = table.index.find(table.tensors.data(), tensor.name()) == place;
    out += found && tensor.name().data()[tensor.name().size()] == '\0' ? "\n" : " lost\n";
  }
  for (const nouns::MetadataPair& pair : table.metadata) {
    append(out, pair.key);
    append(out, pair.value);
    out += pair.value.data()[pair.value.size()] == '\0' ? "\n" : " without an end\n";
  }
  std::string raw(header.size(), '?');
  st::format::restore_header(header, table, raw.data());
  out += raw == original ? "restored\n" : "not restored\n";
  return out;
}

std::string text_of(const Index& index) {
  std::string out;
  for (const std::string_view shard : index.shards) append(out, shard);
  for (const auto& entry : index.entries) {
    append(out, entry.tensor);
    out += fmt::format("={}\n", entry.shard);
  }
  for (const nouns::MetadataPair& pair : index.metadata) {
    append(out, pair.key);
    append(out, pair.value);
  }
  return out;
}

template <class Options>
void set_window(Options& options, std::size_t bytes) {
  if constexpr (requires { options.window_bytes; }) options.window_bytes = bytes;
}

void read_header(std::span<char> bytes, const Case& given, Options options, nouns::Table& table) {
  const std::uint64_t file_size = 8 + bytes.size() + given.data_bytes;
#ifndef ST_DIFFERENTIAL_OLD
  if (given.in_a_shard) {
    options.index_names = false;
    st::format::read_header(bytes, file_size, options, table);
    options.index_names = true;
    return st::format::read_header_again(bytes, file_size, options, table);
  }
#endif
  st::format::read_header(bytes, file_size, options, table);
}

Verdict read(std::string_view text, const Case& given) {
  Options options;
  options.rules = static_cast<st::format::Rules>(given.rules);
  options.unknown_dtypes = given.unknown_dtypes;
  options.seed = 7;
  set_window(options, given.window_bytes);
  const auto memory = padded(text);
  const std::span<char> bytes(memory.get(), text.size());
  Verdict verdict;
  try {
    if (given.index) {
      Index index(std::pmr::new_delete_resource());
      read_the_index(bytes, options, index);
      verdict.table = text_of(index);
    } else {
      nouns::Table table(std::pmr::new_delete_resource());
      read_header(bytes, given, options, table);
      verdict.table = text_of(table, bytes, text);
    }
  } catch (const st::Error& error) {
    verdict.status = static_cast<int>(error.status);
    verdict.offset = error.offset;
    verdict.message = error.message;
  }
  return verdict;
}

}  // namespace

#ifdef ST_DIFFERENTIAL_OLD
Verdict read_old(std::string_view text, const Case& given) { return read(text, given); }
#else
Verdict read_new(std::string_view text, const Case& given) { return read(text, given); }
#endif

}  // namespace differential
