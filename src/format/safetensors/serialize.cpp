// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/serialize.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "base/compiler.hpp"
#include "base/error.hpp"
#include "format/json/cursor.hpp"
#include "format/length_prefix.hpp"

namespace st::format::safetensors {

namespace {

// ---- JSON as the reference spells it --------------------------------------------------------------------------------

constexpr std::string_view kHexDigits = "0123456789abcdef";

constexpr bool is_plain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

// Returns the letter after the backslash, or 0 if \u00xx is needed.
constexpr char short_escape(char c) {
  switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
  }
}

// Nearly all names need no escape. Without a branch, the compiler vectorizes this loop.
bool is_all_plain(std::string_view text) {
  unsigned special = 0;
  for (const char c : text) special |= static_cast<unsigned>(!is_plain(c));
  return special == 0;
}

void append_escaped(std::string& out, char c) {
  if (is_plain(c)) {
    out += c;
    return;
  }
  out += '\\';
  if (const char letter = short_escape(c); letter != 0) {
    out += letter;
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  out += "u00";
  out += kHexDigits[byte >> 4];
  out += kHexDigits[byte & 0xF];
}

void append_number(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), result.ptr);
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  if (is_all_plain(text)) {
    out += text;
  } else {
    for (const char c : text) append_escaped(out, c);
  }
  out += '"';
}

// ---- a new header ---------------------------------------------------------------------------------------------------

constexpr std::size_t kAhead = 8;

void append_entry(std::string& out, const NewTensor& tensor) {
  append_string(out, tensor.name);
  out += R"(:{"dtype":")";
  out += info(tensor.dtype).name;
  out += R"(","shape":[)";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, tensor.shape[i]);
  }
  out += R"(],"data_offsets":[)";
  append_number(out, tensor.begin);
  out += ',';
  append_number(out, tensor.end);
  out += "]}";
}

void append_metadata(std::string& out, std::span<const MetadataPair> metadata) {
  out += R"("__metadata__":{)";
  bool first = true;
  for (const MetadataPair& pair : metadata) {
    if (!first) out += ',';
    first = false;
    append_string(out, pair.key);
    out += ':';
    append_string(out, pair.value);
  }
  out += '}';
}

// ---- an existing header ---------------------------------------------------------------------------------------------

// Where the metadata goes: [begin, end) is the old metadata member with the white space around it, or only white space.
struct Slot {
  std::size_t brace = 0;  // the '{' that opens the header
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t behind = 0;  // after the comma that follows the old member, and the white space after the comma
  std::size_t close = 0;   // one past the '}' that closes the header
  bool occupied = false;
  bool alone = true;  // there is no other member
};

Slot find_slot(std::string_view header) {
  std::pmr::monotonic_buffer_resource strings;
  std::pmr::vector<char> text(header.begin(), header.end(), &strings);
  text.resize(text.size() + kPadding);
  json::Cursor in({text.data(), header.size()}, kLengthBytes, &strings);
  const auto here = [&] { return static_cast<std::size_t>(in.at() - text.data()); };
  Slot slot;
  slot.brace = here();
  in.expect('{');
  slot.begin = slot.brace + 1;
  slot.end = here();
  if (!in.take('}')) {
    std::size_t begin = slot.begin;
    do {
      if (slot.occupied && begin == slot.end + 1) slot.behind = here();
      const bool metadata = in.string() == "__metadata__";
      in.expect(':');
      in.skip_value(1);
      const std::size_t end = here();
      if (metadata) {
        slot.begin = begin;
        slot.end = end;
        slot.occupied = true;
      } else {
        slot.alone = false;
      }
      begin = end + 1;
    } while (in.take(','));
    in.expect('}');
  }
  slot.close = static_cast<std::size_t>(in.behind() - text.data());
  return slot;
}

// The pieces of the new text. join() adds white space after the second or the third.
struct Pieces {
  std::string_view before;
  std::string member;
  std::string_view after;

  std::size_t size() const { return before.size() + member.size() + after.size(); }
};

std::string join(const Pieces& pieces, std::uint64_t length, bool spaces_at_end) {
  std::string out(kLengthBytes, '\0');
  out.reserve(static_cast<std::size_t>(kLengthBytes + length));
  store_length(out.data(), length);
  const std::size_t spaces = static_cast<std::size_t>(length) - pieces.size();
  out += pieces.before;
  out += pieces.member;
  if (!spaces_at_end) out.append(spaces, ' ');
  out += pieces.after;
  if (spaces_at_end) out.append(spaces, ' ');
  return out;
}

}  // namespace

void check(const NewTensor& tensor) {
  if (tensor.name == "__metadata__") fail(Status::argument, "a tensor cannot be named '__metadata__'");
}

// The reserve follows the metadata, not the whole header. An edit that fits there moves no tensor's entry, so it
// changes only one block. See core/edit.hpp.
void append_header(std::string& out, const NewHeader& header) {
  out += '{';
  if (header.has_metadata) append_metadata(out, header.metadata);
  out.append(static_cast<std::size_t>(header.reserve), ' ');
  bool first = !header.has_metadata;
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    // Names are in memory in order of declaration, so without prefetching each access would be a cache miss.
    if (i + kAhead < header.tensors.size()) prefetch(header.tensors[i + kAhead].name.data());
    if (!first) out += ',';
    first = false;
    append_entry(out, header.tensors[i]);
  }
  out += '}';
}

std::string splice_metadata(std::string_view header, const MetadataSplice& splice) {
  const Slot slot = find_slot(header);
  const std::size_t room = splice.keep_length ? header.size() : 0;
  Pieces pieces{header.substr(0, slot.begin), {}, header.substr(slot.end)};
  append_metadata(pieces.member, splice.metadata);
  if (!slot.occupied && !slot.alone) pieces.member += ',';
  if (pieces.size() <= room) return join(pieces, room, false);  // the metadata fits where it is

  // Or there is room after the comma, left by the edit that gave the file its first metadata. Moving the comma is the
  // second choice, because it may be far away, and an edit in place must change few bytes.
  const Pieces wide{pieces.before, pieces.member + ',', header.substr(std::max(slot.behind, slot.end))};
  if (slot.behind > slot.end && wide.size() <= room) return join(wide, room, false);

  if (slot.begin == slot.brace + 1 && slot.brace > 0) {  // or there is room before the header
    pieces.before = {};
    pieces.member.insert(pieces.member.begin(), '{');
    if (pieces.size() <= room) return join(pieces, room, false);
  }
  pieces.after = header.substr(slot.end, slot.close - slot.end);
  if (pieces.size() <= room) return join(pieces, room, false);  // or at the end: then all entries move

  const std::uint64_t least = pieces.size() + std::min(splice.reserve, kMaxHeaderBytes);
  return join(pieces, padded_length(least, splice.data_alignment), splice.reserve == 0);
}

}  // namespace st::format::safetensors
