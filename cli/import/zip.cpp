// SPDX-License-Identifier: Apache-2.0
#include "zip.hpp"

#include <algorithm>
#include <string_view>

#include "error.hpp"

namespace cli::importer {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kLocator64Mark = 0x07064b50;

constexpr std::uint64_t kEntryBytes = 300;  // in memory, including its place in maps

constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocator64Bytes = 20;
constexpr std::uint64_t kLongestComment = 0xFFFF;

constexpr std::uint16_t kEncrypted = 1 << 0;
constexpr std::uint16_t kSizesBehind = 1 << 3;  // the sizes follow the data instead of being in the local header
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
constexpr std::uint16_t kIn64 = 1;  // extra field with numbers that exceed 32 bits
constexpr std::uint32_t kFull32 = 0xFFFFFFFF;
constexpr std::uint16_t kFull16 = 0xFFFF;

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

// ---- the end record, which locates the directory --------------------------------------------------------------------------

// Returns the offset of the last end record whose comment reaches the end of the archive.
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
  fail(archive.size(), "zip: no end record: the file is incomplete, or has bytes after the archive");
}

// Returns whether there is a locator of a 64-bit end record. Without one, 65535 in the end record is the actual number
// of entries.
bool has_locator(const Input& archive, std::uint64_t end) {
  return end >= kLocator64Bytes && Cursor(archive, end - kLocator64Bytes, end).u32() == kLocator64Mark;
}

// Reads the directory's location from the 64-bit end record, and returns the offset of that record.
std::uint64_t read_end64(const Input& archive, std::uint64_t end, Directory& directory) {
  if (end < kLocator64Bytes + kEnd64Bytes) fail(end, "zip: no 64-bit end record");
  Cursor locator(archive, end - kLocator64Bytes, end);
  if (locator.u32() != kLocator64Mark) fail(end - kLocator64Bytes, "zip: no locator of the 64-bit end record");
  locator.skip(4);
  const std::uint64_t at = locator.u64();
  if (at > end - kLocator64Bytes - kEnd64Bytes)
    fail(end, "zip: 64-bit end record at byte {}, after the end record", at);
  Cursor record(archive, at, end);
  if (record.u32() != kEnd64Mark) fail(at, "zip: no 64-bit end record");
  if (record.u64() != end - kLocator64Bytes - at - 12) fail(at, "zip: 64-bit end record has a wrong size");
  record.skip(12);
  const std::uint64_t here = record.u64();
  directory.entries = record.u64();
  if (here != directory.entries) fail(at, "zip: multi-part archives are not supported");
  directory.bytes = record.u64();
  directory.begin = record.u64();
  return at;
}

Directory find_directory(const Input& archive) {
  const std::uint64_t end = find_end(archive);
  Cursor record(archive, end, archive.size());
  record.skip(4);
  Directory directory;
  if (record.u16() != 0 || record.u16() != 0) fail(end, "zip: multi-part archives are not supported");
  const std::uint16_t here = record.u16();
  directory.entries = record.u16();
  directory.bytes = record.u32();
  directory.begin = record.u32();
  if (here != directory.entries) fail(end, "zip: multi-part archives are not supported");
  const bool is_64 = (directory.entries == kFull16 && has_locator(archive, end)) || directory.bytes == kFull32 ||
                     directory.begin == kFull32;
  const std::uint64_t behind = is_64 ? read_end64(archive, end, directory) : end;
  if (directory.begin > behind || directory.bytes > behind - directory.begin) {
    fail(end, "zip: directory of {} bytes at byte {} overlaps the end record", directory.bytes, directory.begin);
  }
  // Old writers add the 64-bit records even if they are not needed.
  const std::uint64_t gap = behind - directory.begin - directory.bytes;
  if (gap != 0 && (is_64 || gap != kEnd64Bytes + kLocator64Bytes)) {
    fail(end, "zip: {} bytes between the directory and the end record", gap);
  }
  if (directory.bytes > kLongestDirectory || directory.entries > kMostEntries) {
    fail(end, "zip: directory of {} entries in {} bytes is too large (limits: {}, {})", directory.entries,
         directory.bytes, kMostEntries, kLongestDirectory);
  }
  return directory;
}

// ---- entries --------------------------------------------------------------------------------------------------------------

// The 64-bit extra field contains only the numbers that are 0xFFFFFFFF in the header, in this order.
void read_extra(Cursor& cursor, std::uint16_t bytes, ZipEntry& entry) {
  if (bytes > cursor.left()) fail(cursor.offset(), "zip: '{}': extra field is too long", entry.name);
  const std::uint64_t end = cursor.position() + bytes;
  const auto left = [&] { return end - cursor.position(); };
  while (left() >= 4) {
    const std::uint16_t tag = cursor.u16();
    const std::uint16_t length = cursor.u16();
    if (length > left()) fail(cursor.offset(), "zip: '{}': extra field is too long", entry.name);
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
  if ((flags & kEncrypted) != 0) fail_unsupported(at, "zip: '{}' is encrypted", entry.name);
  if (method != kStored && method != kDeflated)
    fail_unsupported(at, "zip: '{}' has compression method {} (supported: 0, 8)", entry.name, method);
  entry.deflated = method == kDeflated;
  if (!entry.deflated && entry.packed != entry.bytes) {
    fail(at, "zip: '{}' is not compressed, but has sizes {} and {}", entry.name, entry.packed, entry.bytes);
  }
}

ZipEntry read_entry(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  ZipEntry entry;
  if (cursor.u32() != kEntryMark) fail(at, "zip: expected a directory entry");
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

// Reads the local header, and sets the offset of the entry's bytes.
void read_local(const Input& archive, std::uint64_t limit, ZipEntry& entry) {
  const std::uint64_t at = entry.header;
  Cursor cursor(archive, at, limit);
  if (cursor.u32() != kLocalMark) fail(at, "zip: '{}' has no local header here", entry.name);
  cursor.skip(2);
  const std::uint16_t flags = cursor.u16();
  const bool same_method = cursor.u16() == (entry.deflated ? kDeflated : kStored) && (flags & kEncrypted) == 0;
  cursor.skip(4);
  ZipEntry local;
  local.crc = cursor.u32();
  local.packed = cursor.u32();
  local.bytes = cursor.u32();
  const std::uint16_t name = cursor.u16();
  const std::uint16_t extra = cursor.u16();
  local.name = cursor.text(name);
  read_extra(cursor, extra, local);
  // If the sizes follow the data, they may be 0 here.
  const bool is_empty = (flags & kSizesBehind) != 0;
  const auto fits = [&](std::uint64_t here, std::uint64_t there) { return here == there || (is_empty && here == 0); };
  const bool same_sizes =
      fits(*local.crc, *entry.crc) && fits(local.packed, entry.packed) && fits(local.bytes, entry.bytes);
  if (local.name != entry.name || !same_method || !same_sizes) {
    fail(at, "zip: '{}' has another name, method, size or CRC in its local header", entry.name);
  }
  entry.begin = cursor.position();
  if (entry.packed > cursor.left()) {
    fail(at, "zip: '{}' has {} bytes, but {} are left", entry.name, entry.packed, cursor.left());
  }
}

// ---- the directory -------------------------------------------------------------------------------------------------------------

// torch.serialization.set_crc32_options(False) writes 0 for every CRC.
void drop_checksums(std::vector<ZipEntry>& entries) {
  if (std::any_of(entries.begin(), entries.end(), [](const ZipEntry& entry) { return entry.crc != 0U; })) return;
  for (ZipEntry& entry : entries) entry.crc.reset();
}

void check_names(const std::vector<ZipEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const ZipEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail(kNoOffset, "zip: '{}' occurs twice", *twice);
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const Input& archive, Budget& budget) {
  const Directory directory = find_directory(archive);
  Cursor cursor(archive, directory.begin, directory.begin + directory.bytes);
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    ZipEntry entry = read_entry(cursor);
    if (entry.header > directory.begin || directory.begin - entry.header < kLocalBytes) {
      fail(directory.begin, "zip: '{}' at byte {} is not before the directory", entry.name, entry.header);
    }
    budget.charge(kEntryBytes + 2 * entry.name.size(), entry.header);
    entries.push_back(std::move(entry));
  }
  if (cursor.left() != 0) fail(cursor.offset(), "zip: {} bytes after the last directory entry", cursor.left());
  std::sort(entries.begin(), entries.end(), [](const ZipEntry& a, const ZipEntry& b) { return a.header < b.header; });
  // In file order, so no byte is read twice: a million entries could name one header with a long extra field.
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && entries[i].header < entries[i - 1].begin + entries[i - 1].packed) {
      fail(entries[i].header, "zip: '{}' overlaps '{}'", entries[i].name, entries[i - 1].name);
    }
    read_local(archive, directory.begin, entries[i]);
  }
  check_names(entries);
  drop_checksums(entries);
  std::erase_if(entries, [](const ZipEntry& entry) { return entry.name.ends_with('/') && entry.bytes == 0; });
  return entries;
}

}  // namespace cli::importer
