// The bintensors format (docs/format.md 3): safetensors with a binary header. Reads both layouts, writes the current
// one.
//
// No magic number identifies bintensors or its layout. A header is bintensors if it passes every check of the grammar
// and the ranges in the current layout, or else in the older one. If it passes in both, the bytes after the last entry
// decide: writers pad with spaces.
//
// Rules:
//   standard   accepts what the original accepts
//   strict     also rejects what no writer produces: a metadata key given twice, padding other than spaces, and a length
//              that is not a multiple of 8
//   reference  not used here, because the safetensors reference does not read bintensors
// SPDX-License-Identifier: Apache-2.0
#include "format/container.hpp"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "format/bintensors/decode.hpp"
#include "format/length_prefix.hpp"
#include "format/sniff.hpp"
#include "format/validate.hpp"

namespace st::format::bintensors {

namespace {

// ---- reading --------------------------------------------------------------------------------------------------------

struct Attempt {
  std::optional<Error> fault;
  bool only_spaces_follow = false;  // false after an error
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

// Decoding stops early in the wrong layout, so the layout that got further is probably the right one.
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

// Another kind of file may begin with bytes that look like a length: gzip without a timestamp does. A longer
// signature does not, because the upper half of a header's length is zero.
void refuse_what_it_is(std::span<const char> header, std::uint64_t file_size) {
  std::array<char, kLengthBytes> length;
  store_length(length.data(), header.size());
  refuse_other_kinds(length, file_size);
}

// Any bytes may follow the last entry, so a short list of empty tensors may be valid in both layouts. In that case the
// right layout is the one that leaves only spaces after the last entry, because writers pad with spaces.
void read_by_either(std::span<const char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  Attempt current = read_as(Format::bintensors, header, file_size, options, table);
  if (current.only_spaces_follow) return;
  Attempt older = read_as(Format::bintensors_old, header, file_size, options, table);
  if (!older.fault && (current.fault || older.only_spaces_follow)) return;
  if (current.fault) {
    refuse_what_it_is(header, file_size);
    fail_with_more_telling(*current.fault, *older.fault);
  }
  read_as(Format::bintensors, header, file_size, options, table);
}

// Allowing unknown dtypes makes more headers valid in the wrong layout, so they are tried last.
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

// Sorts empty tensors with the same offset by name.
void sort_ties(Table& table, std::uint64_t seed) {
  if (!sort_by_data(table)) return;
  table.index.reset(table.tensors.size(), seed);
  for (std::uint32_t i = 0; i < table.tensors.size(); ++i) table.index.insert(table.tensors.data(), i);
}

// NUL-terminates all strings. In the current layout, the NUL after a name overwrites the dtype, which is already in the
// table. All other strings are copied.
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

void read(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  table.data_begin = kLengthBytes + header.size();
  read_with_known_dtypes_first(header, file_size, options, table);
  sort_ties(table, options.seed);
  terminate_strings(table);
}

// Returns the layout to diagnose: the one that is valid by the standard rules, or else the one that got further. Throws
// for other kinds of files.
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

// Returns the error that read() throws, or nullopt.
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

// A decoder that collects errors reports a duplicate name at its position. read() reports other errors first.
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

void diagnose(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings) {
  const std::optional<Error> first = first_fault(header, file_size, options);
  if (!first) return;
  FaultSink faults(findings);
  Table table(std::pmr::new_delete_resource());
  table.data_begin = kLengthBytes + header.size();
  try {
    const Format layout = layout_of(header, file_size, options, table);
    table.clear();
    decode(layout, header, options, table, faults);
    validate(table, file_size, faults);  // the header must be in data order
  } catch (const Error&) {
    // The rest cannot be read, or there are too many findings. The error is one of the findings, or put_first() adds
    // it.
  }
  put_first(*first, findings);
}

void restore(std::span<const char> header, const Table& table, std::span<char> copy) {
  for (const Tensor& tensor : table.tensors) {
    const char* const end = tensor.name_text + tensor.name_bytes;
    const std::size_t at = place_in(header, end);
    if (at < header.size()) copy[at] = static_cast<char>(code_of(tensor.dtype()));
  }
}

// ---- writing --------------------------------------------------------------------------------------------------------

void append_bytes(std::string& out, std::uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) out += static_cast<char>(value >> 8 * i & 0xFF);
}

// Appends the shortest form of a number.
void append_number(std::string& out, std::uint64_t value) {
  if (value <= 250) return append_bytes(out, value, 1);
  const unsigned size = value <= UINT16_MAX ? 2 : value <= UINT32_MAX ? 4 : 8;
  append_bytes(out, size == 2 ? 0xFB : size == 4 ? 0xFC : 0xFD, 1);
  append_bytes(out, value, size);
}

void append_string(std::string& out, std::string_view text) {
  append_number(out, text.size());
  out += text;
}

void append_entry(std::string& out, const NewTensor& tensor) {
  append_string(out, tensor.name);
  append_number(out, code_of(tensor.dtype));
  append_number(out, tensor.shape.size());
  for (const std::uint64_t dim : tensor.shape) append_number(out, dim);
  append_number(out, tensor.begin);
  append_number(out, tensor.end);
}

void check(const NewTensor& tensor) {
  if (code_of(tensor.dtype) == kNoCode) {
    fail(Status::unsupported, "tensor {}: bintensors has no dtype {}", in_quotes(tensor.name), info(tensor.dtype).name);
  }
}

void append_header(std::string& out, const NewHeader& header) {
  out += header.has_metadata ? '\1' : '\0';
  if (header.has_metadata) append_number(out, header.metadata.size());
  for (const MetadataPair& pair : header.metadata) {
    append_string(out, pair.key);
    append_string(out, pair.value);
  }
  append_number(out, header.tensors.size());
  for (const NewTensor& tensor : header.tensors) append_entry(out, tensor);
  out.append(static_cast<std::size_t>(header.reserve), ' ');  // readers ignore bytes after the last entry
}

// ---- the container --------------------------------------------------------------------------------------------------

// The first byte says whether there is metadata.
bool recognizes(char first) { return first == '\0' || first == '\1'; }

bool never(char) { return false; }

unsigned write_order(Dtype dtype) { return code_of(dtype); }

}  // namespace

const Container kContainer{Format::bintensors,
                           "bintensors",
                           recognizes,
                           extent_by_length,
                           read,
                           restore,
                           check,
                           write_order,
                           append_header,
                           nullptr /* splice_metadata */,
                           diagnose};

const Container kOldContainer{Format::bintensors_old, "bintensors before 0.1", never, extent_by_length, read, restore};

}  // namespace st::format::bintensors
