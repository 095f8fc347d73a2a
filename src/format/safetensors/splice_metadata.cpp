// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/splice_metadata.hpp"

#include <algorithm>
#include <memory_resource>
#include <vector>

#include "base/error.hpp"
#include "format/header_length.hpp"
#include "format/header_options.hpp"
#include "format/json/json_cursor.hpp"
#include "format/safetensors/serialize.hpp"

namespace st::format::safetensors {

namespace {

// Where in the text the metadata goes: [begin, end) holds the old member and the white space around it, or only
// white space.
struct Slot {
  std::size_t brace = 0;  // the '{' that opens the header
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t behind = 0;  // past the comma that follows an old member, and the white space after that
  std::size_t close = 0;   // one past the '}' that closes the header
  bool occupied = false;
  bool alone = true;  // no other member
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

// The pieces of the new text; white space goes between the second and the third.
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

std::string splice_metadata(std::string_view header, const MetadataSplice& splice) {
  const Slot slot = find_slot(header);
  const std::size_t room = splice.keep_length ? header.size() : 0;
  Pieces pieces{header.substr(0, slot.begin), {}, header.substr(slot.end)};
  append_metadata(pieces.member, splice.metadata);
  if (!slot.occupied && !slot.alone) pieces.member += ',';
  if (pieces.size() <= room) return join(pieces, room, false);  // where the metadata is

  // Or the room is behind the comma, where the edit left it that gave the file its first metadata. The comma moves only
  // now: it may be far away, and a change in place has to be short.
  const Pieces wide{pieces.before, pieces.member + ',', header.substr(std::max(slot.behind, slot.end))};
  if (slot.behind > slot.end && wide.size() <= room) return join(wide, room, false);

  if (slot.begin == slot.brace + 1 && slot.brace > 0) {  // or in front of the header
    pieces.before = {};
    pieces.member.insert(pieces.member.begin(), '{');
    if (pieces.size() <= room) return join(pieces, room, false);
  }
  pieces.after = header.substr(slot.end, slot.close - slot.end);
  if (pieces.size() <= room) return join(pieces, room, false);  // or at its end: all entries move

  const std::uint64_t least = pieces.size() + std::min(splice.reserve, kMaxHeaderBytes);
  return join(pieces, padded_length(least, splice.data_alignment), splice.reserve == 0);
}

}  // namespace st::format::safetensors
