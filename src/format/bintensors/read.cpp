// Which layout a header has, by trying both, and what the table needs once that is settled.
// SPDX-License-Identifier: Apache-2.0
#include "format/bintensors/read.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory_resource>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "format/bintensors/codes.hpp"
#include "format/bintensors/decode.hpp"
#include "format/sniff.hpp"
#include "format/validate.hpp"

namespace st::format::bintensors {

namespace {

struct Attempt {
  std::optional<Error> fault;
  bool only_spaces_follow = false;
};

Attempt read_as(Format layout, std::span<const char> header, std::uint64_t file_size, const HeaderOptions& options,
                Table& table) {
  table.format = layout;
  table.clear();
  FaultSink first;
  try {
    const bool only_spaces_follow = decode(layout, header, options, table, first);
    validate(table, file_size, first);
    return {std::nullopt, only_spaces_follow};
  } catch (const Error& error) {
    return {error, false};
  }
}

bool is_of_grammar(const Error& fault) {
  return fault.status == Status::schema || fault.status == Status::utf8 || fault.status == Status::dtype;
}

// Decoding breaks off early where the bytes are something else, so whichever came further was probably meant.
bool came_further(const Error& a, const Error& b) {
  if (is_of_grammar(a) != is_of_grammar(b)) return is_of_grammar(b);
  return is_of_grammar(a) && a.offset > b.offset;
}

[[noreturn]] void fail_with_more_telling(Error& current, Error& older) {
  const bool is_older = came_further(older, current);
  Error& told = is_older ? older : current;
  told.message.insert(0, is_older ? "as bintensors of the older layout: " : "as bintensors: ");
  throw Error(told);
}

// A file of another kind may happen to announce a header that looks possible: gzip without a time does.
void refuse_what_it_is(std::span<const char> header, std::uint64_t file_size) {
  std::array<char, 64> first{};
  store_length(first.data(), header.size());
  const std::size_t n = std::min<std::size_t>(header.size(), first.size() - kLengthBytes);
  std::copy_n(header.begin(), n, first.begin() + kLengthBytes);
  refuse_other_kinds(std::span<const char>(first).first(kLengthBytes + n), file_size);
}

// What follows the last entry may be anything, and a short list of empty tensors may make sense by both layouts. Then
// it is the one that leaves only spaces over, as its writer did.
void read_by_either(std::span<const char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  Attempt current = read_as(Format::bintensors, header, file_size, options, table);
  if (!current.fault && current.only_spaces_follow) return;
  Attempt older = read_as(Format::bintensors_old, header, file_size, options, table);
  if (!older.fault && (current.fault || older.only_spaces_follow)) return;
  if (current.fault) {
    refuse_what_it_is(header, file_size);
    fail_with_more_telling(*current.fault, *older.fault);
  }
  read_as(Format::bintensors, header, file_size, options, table);
}

// Allowing unknown dtypes allows more headers to make sense by the wrong layout.
void read_with_known_dtypes_first(std::span<const char> header, std::uint64_t file_size, HeaderOptions options,
                                  Table& table) {
  if (std::exchange(options.unknown_dtypes, false)) {
    try {
      return read_by_either(header, file_size, options, table);
    } catch (const Error&) {
      options.unknown_dtypes = true;
    }
  }
  read_by_either(header, file_size, options, table);
}

// Tensors at the same place, which are empty, stand in the order of their names.
void sort_ties(Table& table, std::uint64_t seed) {
  if (!sort_by_data(table)) return;
  table.index.reset(table.tensors.size(), seed);
  for (std::uint32_t i = 0; i < table.tensors.size(); ++i) table.index.insert(table.tensors.data(), i);
}

// Strings handed out end with a NUL. In the current layout a name is followed by its dtype, which the table knows, so
// that the NUL may take its place; everything else is copied.
void terminate_strings(Table& table) {
  for (Tensor& tensor : table.tensors) {
    char* const end = const_cast<char*>(tensor.name_text) + tensor.name_bytes;
    const bool known = table.format == Format::bintensors && tensor.dtype() != Dtype::unknown;
    if (known && static_cast<unsigned char>(*end) == code_of(tensor.dtype())) {
      *end = '\0';
    } else {
      tensor.name_text = copy_text(table.arena, tensor.name()).data();
    }
  }
  for (MetadataPair& pair : table.metadata) {
    pair = {copy_text(table.arena, pair.key), copy_text(table.arena, pair.value)};
  }
}

}  // namespace

void read(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  table.data_begin = kLengthBytes + header.size();
  read_with_known_dtypes_first(header, file_size, options, table);
  sort_ties(table, options.seed);
  terminate_strings(table);
}

namespace {

// By the rules of the original a header may be valid that the caller's refuse. Throws for a file of another kind.
Format layout_of(std::span<const char> header, std::uint64_t file_size, HeaderOptions options, Table& table) {
  options.rules = Rules::standard;
  try {
    read_with_known_dtypes_first(header, file_size, options, table);
    return table.format;
  } catch (const Error&) {
    const Attempt current = read_as(Format::bintensors, header, file_size, options, table);
    const Attempt older = read_as(Format::bintensors_old, header, file_size, options, table);
    refuse_what_it_is(header, file_size);
    return came_further(*older.fault, *current.fault) ? Format::bintensors_old : Format::bintensors;
  }
}

// What read() throws, or nullopt.
std::optional<Error> first_fault(std::span<const char> header, std::uint64_t file_size, const HeaderOptions& options) {
  std::vector<char> copy(header.size() + kPadding);
  std::copy(header.begin(), header.end(), copy.begin());
  Table table(std::pmr::new_delete_resource());
  try {
    read({copy.data(), header.size()}, file_size, options, table);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

// Decoding meets a name that is given twice before faults that read() reports first.
void put_first(const Error& first, Findings& findings) {
  const auto same = std::find_if(findings.begin(), findings.end(), [&first](const Finding& finding) {
    return finding.fault.status == first.status && finding.fault.offset == first.offset;
  });
  if (same == findings.end()) {
    findings.insert(findings.begin(), Finding{first, nullptr, false});
    findings.resize(std::min(findings.size(), kMostFindings + 1));
  } else {
    same->fault = first;
    std::rotate(findings.begin(), same, same + 1);
  }
}

}  // namespace

void survey(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings) {
  const std::optional<Error> first = first_fault(header, file_size, options);
  if (!first) return;
  FaultSink faults(findings);
  Table table(std::pmr::new_delete_resource());
  table.data_begin = kLengthBytes + header.size();
  try {
    const Format layout = layout_of(header, file_size, options, table);
    table.clear();
    table.format = layout;
    decode(layout, header, options, table, faults);
    validate(table, file_size, faults);  // the header has to have the order of the data
  } catch (const Error&) {
    // Nothing more can be read, or is told. The findings have it, or it is a file of another kind: then it is the first.
  }
  put_first(*first, findings);
}

void restore(std::span<const char> header, const Table& table, std::span<char> copy) {
  for (const Tensor& tensor : table.tensors) {
    const char* const end = tensor.name_text + tensor.name_bytes;
    const bool inside = !std::less<>()(end, header.data()) && std::less<>()(end, header.data() + header.size());
    if (inside) copy[static_cast<std::size_t>(end - header.data())] = static_cast<char>(code_of(tensor.dtype()));
  }
}

}  // namespace st::format::bintensors
