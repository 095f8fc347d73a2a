// Both layouts of bintensors: headers written byte by byte, each with the expected result.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "format/bintensors/decode.hpp"
#include "format/header.hpp"
#include "header_read.hpp"

namespace st::format::bintensors_test {
namespace {

using namespace std::string_literals;

// ---- rejected headers -------------------------------------------------------------------------------------------------

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  while (times-- > 0) all += text;
  return all;
}

struct Bad {
  const char* name;
  std::string header;
  std::uint64_t data;
  Status status;
  std::uint64_t offset;
  const char* says;
};

// A function, so only the test that uses it builds its strings of megabytes.
std::vector<Bad> bad_headers() {
  return {
      {"one byte", "\0"s, 0, Status::schema, 9, "ends too early"},
      {"ends after the metadata", "\1\0"s, 0, Status::schema, 10, "ends too early"},
      {"ends in a number", "\0\1\1a\1\1\xfb\1"s, 0, Status::schema, 14, "tensor 'a': the header ends too early"},
      {"ends in a number of eight bytes", "\0\1\1a\1\1\xfd\1"s, 0, Status::schema, 14, "the header ends too early"},
      {"ends after a name", "\0\1\4abcd"s, 0, Status::schema, 15, "tensor 'abcd': the header ends too early"},
      {"ends after a shape", "\0\1\1a\1\2\1\1"s, 0, Status::schema, 16, "tensor 'a': the header ends too early"},
      {"ends in an offset", "\0\1\1a\1\1\4\0"s, 4, Status::schema, 16, "tensor 'a': the header ends too early"},
      {"marker FE", "\0\xfe"s, 0, Status::schema, 9, "0xfe"},
      {"marker FE, a number of 16 bytes", "\0\xfe"s + std::string(16, '\0'), 0, Status::schema, 9, "0xfe"},
      {"marker FF in a shape", "\0\1\1a\1\1\xff\0\4"s, 4, Status::schema, 14, "found 0xff"},
      {"more tensors than bytes", "\0\xfd\xff\xff\xff\xff\xff\xff\xff\xff    "s, 0, Status::schema, 9,
       "18446744073709551615 tensors, but only 4 bytes are left"},
      {"more dimensions than bytes", "\0\1\1a\1\xfc\0\0\0\x40    "s, 0, Status::schema, 18,
       "tensor 'a': 1073741824 dimensions, but only 4 bytes are left"},
      {"more pairs than bytes", "\1\xfb\xff\xff  "s, 0, Status::schema, 9, "65535 metadata pairs, but only 2 bytes"},
      {"a name longer than the header",
       "\0\1\x28"
       "abcdef"s,
       0, Status::schema, 10, "a string of 40 bytes, but only 6"},
      {"a name that is not UTF-8", "\0\1\3a\xc0\x80\1\1\1\0\1"s, 1, Status::utf8, 12, "not UTF-8: 61c080"},
      {"a name that is not UTF-8, after a tensor", "\0\2\1a\1\1\1\0\1\1\x80\1\1\1\2"s, 2, Status::utf8, 18,
       "as bintensors: a string that is not UTF-8: 80"},
      {"a value that is not UTF-8", "\1\1\1k\1\xff\0"s, 0, Status::utf8, 13, "not UTF-8: ff"},
      {"an unknown dtype", "\0\1\1a\x0f\1\1\0\1"s, 1, Status::dtype, 12, "tensor 'a': dtype 15 is unknown"},
      {"a name twice", "\0\2\1a\1\1\1\0\1\1a\1\1\1\1\2"s, 2, Status::duplicate, 17, "tensor 'a' occurs twice"},
      {"a name twice, then a fault of the bytes", "\0\3\1a\1\1\1\0\1\1a\1\1\1\1\2\1b\x10\0\0\0"s, 2, Status::dtype, 26,
       "dtype 16"},
      {"a hole", "\0\1\1a\1\1\1\1\2"s, 2, Status::offsets, 18, "leave a hole"},
      {"an overlap", "\0\2\1a\1\1\2\0\2\1b\1\1\2\1\3"s, 3, Status::offsets, 25, "tensor 'b': offsets 1..3 overlap"},
      {"backwards", "\0\1\1a\1\1\1\0\0\0"s, 0, Status::tensor_size, 18, "needs 1 bytes, but offsets 0..0 span 0"},
      {"listed out of order", "\0\2\1a\1\1\1\1\2\1b\1\1\1\0\1"s, 2, Status::offsets, 25, "tensor 'a'"},
      {"a product beyond 64 bits", "\0\1\1a\1\2\xfd\0\0\0\0\0\0\0\x80\2\0\1"s, 1, Status::overflow, 26,
       "more than 2^64-1 bits"},
      {"too short for its shape", "\0\1\1a\5\1\2\0\3"s, 3, Status::tensor_size, 17,
       "I16 [2] needs 4 bytes, but offsets 0..3 span 3"},
      {"a byte left over", "\0\1\1a\1\1\1\0\1"s, 2, Status::coverage, 18, "has 1 more bytes"},
      {"a byte missing", "\0\1\1a\1\1\2\0\2"s, 1, Status::coverage, 18, "the file has 18 of 19 bytes"},
      {"older: more tensors than bytes, so not older", "\0\2\x0e\0\0\0\1\0\0\0\2\5"s, 0, Status::schema, 10,
       "as bintensors: a string of 14 bytes, but only 9 are left"},
      {"older: a number out of range", "\0\1\x0b\1\1\0\4\1\1a\1"s, 4, Status::schema, 16,
       "older layout: tensor 'a': its number is 1, but there are 1 tensors"},
      {"older: more names than tensors", "\0\1\x0d\1\1\0\x08\2\1a\0\1b\0"s, 8, Status::schema, 15,
       "older layout: 2 names for 1 tensors"},
      {"older: a name twice", "\0\2\x0d\1\1\0\x08\x0d\1\1\x08\x10\2\1a\0\1a\1"s, 16, Status::duplicate, 24,
       "older layout: tensor 'a' occurs twice"},
      {"older: a number twice", "\0\2\x0d\1\1\0\x08\x0d\1\1\x08\x10\2\1a\0\1b\0"s, 16, Status::duplicate, 24,
       "older layout: tensor 'b': it has the same number as 'a'"},
      {"older: more tensors than can have names", "\0\xfc\xa0\x86\1\0"s + repeated("\1\0\xfa\xfa"s, 150'000), 0,
       Status::schema, 373'750, "older layout: 100000 tensors, but not enough names"},
      {"older: a byte left over, where the current layout is not UTF-8",
       "\0\1\1\x80"s + std::string(128, '\1') + "\0\1\1\1a\0"s, 2, Status::coverage, 147,
       "older layout: the tensors end at byte 147"},
      {"older: a name that is not UTF-8, after another", "\0\2\x0d\1\1\0\x08\x0d\1\1\x08\x10\2\1a\0\3bb\xff\1"s, 16,
       Status::utf8, 27, "older layout: a string that is not UTF-8: 6262ff"},
      {"wrong ranges in both layouts", "\0\1\2\4\3\2\1\1\0\6\1\4name\0"s, 7, Status::tensor_size, 25,
       "as bintensors: tensor '\\x04\\x03'"},
      {"older: a byte missing", "\0\1\x0b\1\1\0\4\1\1a\0"s, 3, Status::coverage, 22,
       "older layout: truncated download? the file has 22"},
      {"older: ends in a name's number, where the current layout sees no UTF-8",
       "\0\1\x0b\1\xfb\0\4\0\xfb\0\x10\1\3\x61\x62\x63"s, 4096, Status::schema, 24, "older layout"},
      {"gzip without a time", std::string("\0\3"s + std::string(0x88b1f - 2, '\xff')), 8, Status::format, 0, "gzip"},
  };
}

TEST(BintensorsFaults, EachHasItsStatusPlaceAndWords) {
  for (const Bad& bad : bad_headers()) {
    const Error error = error_of(bad.header, bad.data);
    EXPECT_EQ(error.status, bad.status) << bad.name << ": " << error.message;
    EXPECT_EQ(error.offset, bad.offset) << bad.name << ": " << error.message;
    EXPECT_NE(error.message.find(bad.says), std::string::npos) << bad.name << ": " << error.message;
  }
}

// An interrupted download, or a file created but never written, is not a model without tensors. Names are checked eight
// bytes at a time.
TEST(BintensorsFaults, AByteThatIsNotUtf8AtEveryPlaceOfANameOfEveryLength) {
  for (std::size_t size = 1; size <= 26; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::string name(size, 'a');
      name[at] = '\xFF';
      const Error error = error_of("\0\1"s + static_cast<char>(size) + name + "\1\1\1\0\1"s, 1);
      EXPECT_EQ(error.status, Status::utf8) << error.message;
      std::string shown;
      for (const char c : name.substr(0, 16)) shown += c == 'a' ? "61" : "ff";
      if (size > 16) shown += "...";
      EXPECT_TRUE(error.message.ends_with("not UTF-8: " + shown)) << error.message;
    }
  }
}

TEST(BintensorsFaults, ANearlyBlankFileIsNoModel) {
  for (const std::size_t size : {4U, 8U, 16U, 64U, 4096U}) {
    EXPECT_EQ(error_of(std::string(size, '\0'), 0).status, Status::schema) << size;
  }
  EXPECT_EQ(error_of("\0\0 \0    "s, 0).status, Status::schema);
  EXPECT_EQ(error_of("\1\1\1k\1v\0\0\0"s, 0).status, Status::schema);
  EXPECT_EQ(error_of("\0\0      "s, 0).message, "");
  EXPECT_EQ(error_of("\1\1\1k\1v\0         "s, 0).message, "");
  EXPECT_EQ(error_of("\0\1\1a\1\1\0\0\0\0\0\0"s, 0).message, "");  // a tensor, and any padding
}

std::string raw_header(const HeaderRead& file, std::size_t size) {
  std::string raw(size, '?');
  restore_header({file.header.data(), size}, file.table, raw.data());
  return raw;
}

// A header truncated or changed at any byte is rejected or read correctly.
void expect_refused_or_kept(const std::string& header) {
  try {
    EXPECT_EQ(raw_header(*read(header, 6), header.size()), header);
  } catch (const Error& error) {
    EXPECT_NE(error.status, Status::internal);
  }
}

TEST(BintensorsFaults, NoByteOfAHeaderIsTrusted) {
  const std::string current = "\1\1\1k\1v\2\1a\1\1\2\0\2\1b\x0b\2\1\1\2\6\0"s;
  const std::string older = "\1\1\1k\1v\2\1\1\2\0\2\x0b\2\1\1\2\6\2\1a\0\1b\1"s;
  for (const std::string& header : {current, older}) {
    EXPECT_EQ(error_of(header, 6).message, "");
    for (std::size_t at = 1; at < header.size(); ++at) {
      expect_refused_or_kept(header.substr(0, at));
      for (int byte = 0; byte < 256; ++byte) {
        std::string changed = header;
        changed[at] = static_cast<char>(byte);
        expect_refused_or_kept(changed);
      }
    }
  }
}

// ---- accepted headers -------------------------------------------------------------------------------------------------

TEST(Bintensors, WhateverTheOriginalTakesIsTaken) {
  const std::string tensor = "\1\1a\1\1\1\0\1"s;
  EXPECT_EQ(error_of("\0"s + tensor, 1).message, "");                        // no padding, not a multiple of 8
  EXPECT_EQ(error_of("\0"s + tensor + "\xff\0x"s, 1).message, "");           // any bytes as padding
  EXPECT_EQ(error_of("\0\xfb\1\0\xfc\1\0\0\0a\1\1\1\0\1"s, 1).message, "");  // longer numbers than needed
  EXPECT_EQ(error_of("\0\1\1a\xfb\1\0\1\1\0\1"s, 1).message, "");            // also a dtype's
  EXPECT_EQ(error_of("\1\0"s + tensor, 1).message, "");                      // an empty map
  EXPECT_EQ(error_of("\0\0"s, 0).message, "");                               // nothing at all
}

TEST(Bintensors, AnEmptyMapIsNotTheSameAsNone) {
  EXPECT_FALSE(read("\0\0"s, 0)->table.has_metadata);
  EXPECT_TRUE(read("\1\0\0"s, 0)->table.has_metadata);
}

TEST(Bintensors, OfAMetadataKeyGivenTwiceTheLastCounts) {
  const std::string header = "\1\3\1k\1a\1l\1b\1k\1c\0"s;
  const auto read_back = read(header, 0);
  ASSERT_EQ(read_back->table.metadata.size(), 2u);
  EXPECT_EQ(read_back->table.metadata[0].key, "k");
  EXPECT_EQ(read_back->table.metadata[0].value, "c");
  HeaderOptions strict;
  strict.rules = Rules::strict;
  const Error error = error_of(header + std::string(3, ' '), 0, strict);
  EXPECT_EQ(error.status, Status::duplicate);
  EXPECT_EQ(error.offset, 18U);
}

TEST(Bintensors, StrictRulesWantSpacesUpToAMultipleOfEight) {
  HeaderOptions strict;
  strict.rules = Rules::strict;
  EXPECT_EQ(error_of("\0\0      "s, 0, strict).status, Status::ok);
  EXPECT_EQ(error_of("\0\0     "s, 0, strict).status, Status::schema);
  EXPECT_EQ(error_of("\0\0     \0"s, 0, strict).status, Status::schema);
  EXPECT_EQ(error_of("\0\0     \0"s, 0, strict).offset, 15U);
}

TEST(Bintensors, StringsEndWithANulAndTheRawHeaderIsKept) {
  const std::string current = "\1\1\1k\1v\3\0\0\1\1\0\1\1b\xfb\1\0\1\1\1\2\4name\x0b\0\2\6"s;
  const std::string older = "\1\1\1k\1v\2\1\1\2\0\2\x0b\0\2\6\2\4name\1\1b\0"s;
  for (const std::string& header : {current, older}) {
    const auto file = read(header, 6);
    EXPECT_EQ(file->table.format, header == current ? Format::bintensors : Format::bintensors_old);
    for (const Tensor& tensor : file->table.tensors) {
      EXPECT_EQ(std::strlen(tensor.name_text), tensor.name_bytes);
      EXPECT_EQ(&file->table.tensors[file->table.index.find(file->table.tensors.data(), tensor.name())], &tensor);
    }
    EXPECT_STREQ(file->table.metadata[0].key.data(), "k");
    EXPECT_STREQ(file->table.metadata[0].value.data(), "v");
    EXPECT_EQ(raw_header(*file, header.size()), header);
  }
}

// I8 [3,2,1,0], called "name"; or, by the current layout, I8 [0] called "\4\3" and then other bytes.
TEST(Bintensors, WhereBothLayoutsMakeSenseTheOneThatLeavesOnlySpacesIsTaken) {
  const std::string header = "\0\1\2\4\3\2\1\0\0\0\1\4name\0"s;
  EXPECT_EQ(read(header, 0)->table.format, Format::bintensors_old);
  EXPECT_EQ(read(header + " ", 0)->table.format, Format::bintensors_old);
  const auto current = read(header + "x", 0);
  EXPECT_EQ(current->table.format, Format::bintensors);
  EXPECT_EQ(current->table.tensors.at(0).name(), "\4\3");
  // Both layouts end where the header does.
  EXPECT_EQ(read("\0\1\6\1\0\0\0\1\4\2\1\0\0\0"s, 0)->table.format, Format::bintensors);
}

// Copied strings may be before the header in memory.
TEST(Bintensors, OnlyTheBytesOfTheHeaderAreRestored) {
  const std::string header = "\0\1\x0b\1\1\0\4\1\1a\0"s;  // of the older layout
  std::vector<char> memory(8192);
  std::pmr::monotonic_buffer_resource before(memory.data(), 4096, std::pmr::null_memory_resource());
  Table table(&before);
  char* const text = std::copy(header.begin(), header.end(), memory.data() + 4096) - header.size();
  read_header({text, header.size()}, kLengthBytes + header.size() + 4, {}, table);
  std::string out(8192, '?');
  restore_header({text, header.size()}, table, out.data() + 4096);
  EXPECT_EQ(out.substr(0, 4096 + header.size()), std::string(4096, '?') + header);
}

TEST(Bintensors, EmptyTensorsAtOnePlaceStandInTheOrderOfTheirNames) {
  const auto file = read("\0\3\1c\1\1\0\0\0\1a\1\1\0\0\0\1b\1\1\0\0\0"s, 0);
  std::string names;
  for (const Tensor& tensor : file->table.tensors) names += tensor.name();
  EXPECT_EQ(names, "abc");
  EXPECT_EQ(file->table.index.find(file->table.tensors.data(), "c"), 2u);
}

TEST(Bintensors, UnknownDtypesAreListedByNumberWhenAskedFor) {
  HeaderOptions options;
  options.unknown_dtypes = true;
  const auto file = read("\0\1\1a\x11\1\2\0\3"s, 3, options);
  EXPECT_EQ(file->table.tensors[0].dtype(), Dtype::unknown);
  EXPECT_STREQ(file->table.tensors[0].dtype_name(), "17");
  EXPECT_EQ(read("\0\1\1a\1\1\2\0\2"s, 2, options)->table.tensors[0].dtype(), Dtype::U8);  // though none is there
}

class FailingAt final : public std::pmr::memory_resource {
 public:
  explicit FailingAt(int allocation) : left_(allocation) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (left_-- == 0) throw std::bad_alloc();
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* ptr, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(ptr, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  int left_;
};

// It would be mistaken for an error in the bytes, and the other layout would be tried.
TEST(Bintensors, WithoutMemoryNoLayoutIsSaidToBeWrong) {
  const std::string bytes = "\1\1\1k\1v\2\1\1\2\0\2\x0b\0\2\6\2\4name\1\1b\0"s;  // of the older layout
  HeaderOptions options;
  options.unknown_dtypes = true;
  int failures = 0;
  for (bool taken = false; !taken; ++failures) {
    ASSERT_LT(failures, 100);
    FailingAt memory(failures);
    Table table(&memory);
    std::string header = bytes + std::string(kPadding, '\0');
    try {
      read_header({header.data(), bytes.size()}, kLengthBytes + bytes.size() + 6, options, table);
      taken = true;
    } catch (const std::bad_alloc&) {}
  }
  EXPECT_GT(failures, 3);
}

// ---- written headers --------------------------------------------------------------------------------------------------

TEST(BintensorsWriting, WhatIsWrittenIsReadBack) {
  const std::vector<std::uint64_t> shape{3, 70000, 0, 300};
  const std::vector<std::uint64_t> large{std::uint64_t{1} << 33};
  const std::vector<NewTensor> tensors{{"", {}, 0, 8, Dtype::U64},
                                       {"empty", shape, 8, 8, Dtype::F8_E4M3},
                                       {"large", large, 8, 8 + (std::uint64_t{1} << 33), Dtype::BOOL}};
  const std::vector<MetadataPair> metadata{{"", ""}, {"k", std::string_view("v\0w", 3)}};
  NewHeader header;
  header.tensors = tensors;
  header.metadata = metadata;
  header.has_metadata = true;
  header.format = Format::bintensors;
  header.data_alignment = 4096;
  header.reserve = 4096;
  const std::string bytes = serialize(header);
  EXPECT_EQ(bytes.size(), 8192u);
  const auto file = read(bytes.substr(kLengthBytes), 8 + (std::uint64_t{1} << 33));
  ASSERT_EQ(file->table.tensors.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file->table.tensors[i].name(), tensors[i].name);
    EXPECT_EQ(file->table.tensors[i].dtype(), tensors[i].dtype);
    EXPECT_TRUE(std::ranges::equal(file->table.tensors[i].shape(), tensors[i].shape));
    EXPECT_EQ(file->table.tensors[i].end, tensors[i].end);
  }
  EXPECT_EQ(file->table.metadata[1].value, metadata[1].value);
}

TEST(BintensorsWriting, NumbersTakeAsFewBytesAsTheyFitInto) {
  const struct {
    std::uint64_t number;
    std::string bytes;
  } cases[] = {
      {0, "\0"s},
      {250, "\xfa"s},
      {251, "\xfb\xfb\0"s},
      {65535, "\xfb\xff\xff"s},
      {65536, "\xfc\0\0\1\0"s},
      {UINT32_MAX, "\xfc\xff\xff\xff\xff"s},
      {std::uint64_t{1} << 32, "\xfd\0\0\0\0\1\0\0\0"s},
  };
  for (const auto& [number, bytes] : cases) {
    const std::vector<std::uint64_t> shape{number};
    const NewTensor tensor{"t", shape, 0, number, Dtype::U8};
    NewHeader header;
    header.tensors = {&tensor, 1};
    header.format = Format::bintensors;
    const std::string written = serialize(header).substr(kLengthBytes);
    const std::string wanted = "\0\1\1t"s + written[4] + "\1"s + bytes + "\0"s + bytes;
    EXPECT_EQ(written.substr(0, wanted.size()), wanted) << number;
  }
}

TEST(BintensorsWriting, ADtypeThatTheFormatLacksIsRefusedByName) {
  std::size_t refused = 0;
  for (const DtypeInfo& dtype : kDtypes) {
    if (dtype.dtype == Dtype::unknown) continue;
    try {
      check_tensor_of(Format::bintensors, {"w", {}, 0, 0, dtype.dtype});
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.status, Status::unsupported);
      EXPECT_EQ(error.message, formatted("tensor 'w': bintensors has no dtype {}", dtype.name));
    }
  }
  EXPECT_EQ(refused, kDtypes.size() - 1 - bintensors::kDtypesByCode.size());  // without UNKNOWN
}

TEST(BintensorsWriting, LaterCodesComeFirst) {
  EXPECT_LT(dtype_order(Format::bintensors, Dtype::U64), dtype_order(Format::bintensors, Dtype::U8));
}

TEST(BintensorsWriting, MetadataCannotBeEdited) {
  try {
    splice_metadata(Format::bintensors, "\0\0"s, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status, Status::unsupported);
  }
}

TEST(BintensorsWriting, AlsoATensorCalledMetadataIsHeld) {
  EXPECT_NO_THROW(check_tensor_of(Format::bintensors, {"__metadata__", {}, 0, 1, Dtype::U8}));
}

}  // namespace
}  // namespace st::format::bintensors_test
