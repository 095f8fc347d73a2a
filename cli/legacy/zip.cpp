// SPDX-License-Identifier: Apache-2.0
#include "zip.hpp"

#include <algorithm>
#include <string_view>

#include "cursor.hpp"
#include "refusal.hpp"

namespace cli::legacy {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kLocator64Mark = 0x07064b50;

constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocator64Bytes = 20;
constexpr std::uint64_t kLongestComment = 0xFFFF;

constexpr std::uint16_t kEncrypted = 1 << 0;
constexpr std::uint16_t kSizesBehind = 1 << 3;  // the local header has none
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
constexpr std::uint16_t kIn64 = 1;  // the extra field that has the numbers which 32 bits cannot hold
constexpr std::uint32_t kFull32 = 0xFFFFFFFF;
constexpr std::uint16_t kFull16 = 0xFFFF;

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

// ---- the end, which says where the directory lies -----------------------------------------------------------------------

// Returns where the last record begins whose comment reaches the end of the archive.
std::uint64_t find_end(const Input& archive) {
  const std::uint64_t bytes = std::min(archive.size(), kEndBytes + kLongestComment);
  const std::uint64_t begin = archive.size() - bytes;
  std::string tail(static_cast<std::size_t>(bytes), '\0');
  archive.read(begin, tail.data(), tail.size());
  for (std::size_t at = tail.size(); at-- > 0;) {
    if (at + kEndBytes > tail.size() || std::string_view(tail).substr(at, 4) != "PK\x05\x06") continue;
    Cursor record(archive, begin + at + 20, archive.size());
    if (record.u16() == record.left()) return begin + at;
  }
  refuse(archive.size(), "is a zip archive without its end: the file is not complete");
}

// Without it, 65535 entries are just as many.
bool has_locator(const Input& archive, std::uint64_t end) {
  return end >= kLocator64Bytes && Cursor(archive, end - kLocator64Bytes, end).u32() == kLocator64Mark;
}

// Replaces what does not fit the record by the numbers of the 64-bit record before it, and returns where that begins.
std::uint64_t read_end64(const Input& archive, std::uint64_t end, Directory& directory) {
  if (end < kLocator64Bytes + kEnd64Bytes) refuse(end, "zip: the 64-bit end is missing");
  Cursor locator(archive, end - kLocator64Bytes, end);
  if (locator.u32() != kLocator64Mark) refuse(end - kLocator64Bytes, "zip: the locator of the 64-bit end is missing");
  locator.skip(4);
  const std::uint64_t at = locator.u64();
  if (at > end - kLocator64Bytes - kEnd64Bytes) refuse(end, "zip: the 64-bit end lies at byte {}, behind the end", at);
  Cursor record(archive, at, end);
  if (record.u32() != kEnd64Mark) refuse(at, "zip: the 64-bit end is missing");
  if (record.u64() != end - kLocator64Bytes - at - 12) refuse(at, "zip: the 64-bit end has a wrong size");
  record.skip(12);
  const std::uint64_t here = record.u64();
  directory.entries = record.u64();
  if (here != directory.entries) refuse(at, "zip: the archive has several parts");
  directory.bytes = record.u64();
  directory.begin = record.u64();
  return at;
}

Directory find_directory(const Input& archive) {
  const std::uint64_t end = find_end(archive);
  Cursor record(archive, end, archive.size());
  record.skip(4);
  Directory directory;
  if (record.u16() != 0 || record.u16() != 0) refuse(end, "zip: the archive has several parts");
  const std::uint16_t here = record.u16();
  directory.entries = record.u16();
  directory.bytes = record.u32();
  directory.begin = record.u32();
  if (here != directory.entries) refuse(end, "zip: the archive has several parts");
  const bool is_64 = (directory.entries == kFull16 && has_locator(archive, end)) || directory.bytes == kFull32 ||
                     directory.begin == kFull32;
  const std::uint64_t behind = is_64 ? read_end64(archive, end, directory) : end;
  if (directory.begin > behind || directory.bytes > behind - directory.begin) {
    refuse(end, "zip: a directory of {} bytes at byte {} does not lie before its end", directory.bytes,
           directory.begin);
  }
  // Old writers put the 64-bit records in also where they are not needed.
  const std::uint64_t gap = behind - directory.begin - directory.bytes;
  if (gap != 0 && (is_64 || gap != kEnd64Bytes + kLocator64Bytes)) {
    refuse(end, "zip: {} bytes lie between the directory and its end", gap);
  }
  if (directory.bytes > kLongestDirectory || directory.entries > kMostEntries) {
    refuse(end, "zip: a directory of {} entries in {} bytes is too large", directory.entries, directory.bytes);
  }
  return directory;
}

// ---- one entry ------------------------------------------------------------------------------------------------------------

// The extra field holds only those numbers that are full in the header, in this order.
void read_extra(Cursor& cursor, std::uint16_t bytes, ZipEntry& entry) {
  const std::uint64_t end = cursor.position() + bytes;
  const auto left = [&] { return end - cursor.position(); };
  while (left() >= 4) {
    const std::uint16_t tag = cursor.u16();
    const std::uint16_t length = cursor.u16();
    if (length > left()) refuse(cursor.offset(), "zip: '{}': an extra field is too long", entry.name);
    const std::uint64_t next = cursor.position() + length;
    if (tag == kIn64) {
      for (std::uint64_t* number : {&entry.bytes, &entry.packed, &entry.header}) {
        if (*number == kFull32 && next - cursor.position() >= 8) *number = cursor.u64();
      }
    }
    cursor.skip(next - cursor.position());
  }
  cursor.skip(left());
}

void check_method(std::uint64_t at, std::uint16_t flags, std::uint16_t method, ZipEntry& entry) {
  if ((flags & kEncrypted) != 0) refuse(at, "zip: '{}' is encrypted", entry.name);
  if (method != kStored && method != kDeflated) refuse(at, "zip: '{}' is packed by method {}", entry.name, method);
  entry.deflated = method == kDeflated;
  if (!entry.deflated && entry.packed != entry.bytes) {
    refuse(at, "zip: '{}' is not packed, but has {} and {} bytes", entry.name, entry.packed, entry.bytes);
  }
}

ZipEntry read_entry(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  ZipEntry entry;
  if (cursor.u32() != kEntryMark) refuse(at, "zip: no entry of the directory where one is expected");
  cursor.skip(4);
  const std::uint16_t flags = cursor.u16();
  const std::uint16_t method = cursor.u16();
  cursor.skip(4);
  entry.crc = cursor.u32();
  entry.packed = cursor.u32();
  entry.bytes = cursor.u32();
  const std::uint16_t name = cursor.u16();
  const std::uint16_t extra = cursor.u16();
  const std::uint16_t comment = cursor.u16();
  cursor.skip(8);
  entry.header = cursor.u32();
  entry.name = cursor.text(name);
  read_extra(cursor, extra, entry);
  cursor.skip(comment);
  check_method(at, flags, method, entry);
  return entry;
}

// Whether the CRC and the sizes of a local header are those of the directory, unless it leaves them to others.
bool same_sizes(Cursor& cursor, std::uint16_t flags, const ZipEntry& entry) {
  const std::uint32_t crc = cursor.u32();
  const std::uint32_t packed = cursor.u32();
  const std::uint32_t bytes = cursor.u32();
  if ((flags & kSizesBehind) != 0) return true;
  return crc == entry.crc && (packed == kFull32 || packed == entry.packed) &&
         (bytes == kFull32 || bytes == entry.bytes);
}

// Finds where the bytes begin. Their number is that of the directory.
void read_local(const Input& archive, std::uint64_t limit, ZipEntry& entry) {
  const std::uint64_t at = entry.header;
  if (at > limit || limit - at < kLocalBytes) {
    refuse(limit, "zip: '{}' lies at byte {}, not before the directory", entry.name, at);
  }
  Cursor cursor(archive, at, limit);
  if (cursor.u32() != kLocalMark) refuse(at, "zip: '{}' has no header here", entry.name);
  cursor.skip(2);
  const std::uint16_t flags = cursor.u16();
  const bool same_method = cursor.u16() == (entry.deflated ? kDeflated : kStored) && (flags & kEncrypted) == 0;
  cursor.skip(4);
  const bool is_same = same_sizes(cursor, flags, entry) && same_method;
  const std::uint16_t name = cursor.u16();
  const std::uint16_t extra = cursor.u16();
  if (cursor.text(name) != entry.name || !is_same) {
    refuse(at, "zip: '{}' has another name, method, size or CRC in its own header", entry.name);
  }
  cursor.skip(extra);
  entry.begin = cursor.position();
  if (entry.packed > cursor.left()) {
    refuse(at, "zip: '{}' has {} bytes, {} are left", entry.name, entry.packed, cursor.left());
  }
}

// ---- all of them ------------------------------------------------------------------------------------------------------------

void check_overlaps(const std::vector<ZipEntry>& entries) {
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const ZipEntry& before = entries[i - 1];
    if (entries[i].header < before.begin + before.packed) {
      refuse(entries[i].header, "zip: '{}' overlaps '{}'", entries[i].name, before.name);
    }
  }
}

void check_names(const std::vector<ZipEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const ZipEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse(kNowhere, "zip: '{}' is there twice", *twice);
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const Input& archive) {
  const Directory directory = find_directory(archive);
  Cursor cursor(archive, directory.begin, directory.begin + directory.bytes);
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    ZipEntry entry = read_entry(cursor);
    read_local(archive, directory.begin, entry);
    entries.push_back(std::move(entry));
  }
  if (cursor.left() != 0) refuse(cursor.offset(), "zip: the directory has {} bytes too many", cursor.left());
  std::sort(entries.begin(), entries.end(), [](const ZipEntry& a, const ZipEntry& b) { return a.header < b.header; });
  check_overlaps(entries);
  check_names(entries);
  std::erase_if(entries, [](const ZipEntry& entry) { return entry.name.ends_with('/') && entry.bytes == 0; });
  return entries;
}

}  // namespace cli::legacy
