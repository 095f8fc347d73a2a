// From bytes to a checked table: checks before any allocation, and no access outside the header.
// SPDX-License-Identifier: Apache-2.0
#include "format/header.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "../base/sanitizer.hpp"
#include "base/error.hpp"
#include "guarded_memory.hpp"

namespace st::format::header_test {
namespace {

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i));
  return file.append(rest);
}

// The status, or nothing if it is accepted.
template <class Body>
std::optional<Status> status_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.status;
  }
  return std::nullopt;
}

// ---- the first bytes --------------------------------------------------------------------------------------------------------

TEST(Measure, NothingIsBelievedThatTheFileCannotHold) {
  struct Case {
    std::uint64_t length;
    std::uint64_t file_size;
    std::uint64_t limit;
    std::optional<Status> status;
  };
  const Case cases[] = {
      {2, 10, kMaxHeaderBytes, {}},
      {2, 9, kMaxHeaderBytes, Status::truncated},
      {2, UINT64_MAX, kMaxHeaderBytes, {}},
      {100'000'000, 100'000'008, kMaxHeaderBytes, {}},
      {100'000'000, 100'000'007, kMaxHeaderBytes, Status::truncated},
      {100'000'001, 100'000'009, kMaxHeaderBytes, Status::header_size},
      {100'000'001, UINT64_MAX, UINT64_MAX, Status::header_size},
      {100'000'001, 20, kMaxHeaderBytes, Status::header_size},
      {UINT64_MAX, UINT64_MAX, kMaxHeaderBytes, Status::header_size},
      {UINT64_MAX - 7, UINT64_MAX, UINT64_MAX, Status::header_size},
      {1000, 2000, 1000, {}},
      {1001, 2000, 1000, Status::header_size},
  };
  for (const Case& given : cases) {
    const std::string prefix = with_length(given.length, "{                ");
    HeaderOptions options;
    options.max_bytes = given.limit;
    std::uint64_t length = 0;
    const auto status = status_of([&] { length = find_header(prefix, given.file_size, options).bytes; });
    EXPECT_EQ(status, given.status) << given.length << " of " << given.file_size;
    EXPECT_TRUE(status || length == given.length);
  }
}

// The number alone would not tell a user that a text file is not a model.
TEST(Measure, ALengthThatNoHeaderHasIsAnotherKindOfFile) {
  const auto says = [](std::string_view prefix, std::uint64_t limit) {
    HeaderOptions options;
    options.max_bytes = limit;
    try {
      find_header({prefix.data(), prefix.size()}, prefix.size(), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.status, Status::header_size);
      return error.message.find("not a safetensors file") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(says("# A title, and then some text", kMaxHeaderBytes));
  EXPECT_FALSE(says(with_length(1001, "{}"), 1000));
}

// gzip without a time: as a length it is 559,903, and the next bytes could begin a header.
TEST(Measure, AShortFileOfAnotherKindWhoseLengthLooksPossible) {
  const std::string gzip("\x1f\x8b\x08\0\0\0\0\0\0\3", 10);
  for (const std::uint64_t file_size : {20U, 559'902U, 559'910U}) {
    EXPECT_EQ(status_of([&] { find_header(gzip, file_size, {}); }), Status::format) << file_size;
  }
  HeaderOptions options;
  options.max_bytes = 559'903;  // with the first byte of a header, it is not gzip
  for (const char first : {'\0', '{', ' ', '\t'}) {
    EXPECT_EQ(find_header(gzip.substr(0, 8) + first, 559'911, options).bytes, 559'903U) << int{first};
  }
}

TEST(Measure, AnotherKindOfFileIsToldWhateverItsLength) {
  const std::string prefixes[] = {std::string("\x1f\x8b\x08\0\0\0\0\0x", 9), std::string(64, '\0'),
                                  std::string("GGUF\3\0\0\0\0", 9)};
  for (const std::string& prefix : prefixes) {
    EXPECT_EQ(status_of([&] { find_header(prefix, 600'000, {}); }), Status::format) << prefix;
  }
  HeaderOptions options;
  options.max_bytes = 1000;
  EXPECT_EQ(status_of([&] { find_header(std::string("\x1f\x8b\x08\0\0\0\0\0{", 9), 600'000, options); }),
            Status::format);
}

TEST(Measure, SaysHowManyBytesAreThere) {
  try {
    find_header(with_length(7, "{}"), 10, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message.find("only 2 after the length"), std::string::npos) << error.message;
  }
}

TEST(Measure, FewerThanEightBytes) {
  for (std::size_t size = 0; size < 8; ++size) {
    EXPECT_EQ(status_of([&] { find_header(std::string(size, '\2'), size, {}); }), Status::truncated) << size;
  }
}

// ---- the header --------------------------------------------------------------------------------------------------------------

// A header that ends, with its padding, just before an unreadable page.
class GuardedHeader {
 public:
  explicit GuardedHeader(std::string_view header) : size_(header.size()), memory_(size_ + kPadding) {
    std::memcpy(text().data(), header.data(), size_);
  }
  GuardedHeader(const GuardedHeader&) = delete;
  GuardedHeader& operator=(const GuardedHeader&) = delete;

  std::span<char> text() { return {memory_.end() - kPadding - size_, size_}; }

 private:
  std::size_t size_;
  GuardedMemory memory_;
};

TEST(Header, NothingIsReadBeyondThePadding) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ST_TESTS_DIR "/conformance/files")) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(stream), {}};
    for (const Rules rules : {Rules::standard, Rules::strict, Rules::reference}) {
      HeaderOptions options;
      options.rules = rules;
      options.unknown_dtypes = true;
      std::uint64_t length = 0;
      if (status_of([&] { length = find_header(std::string_view(file).substr(0, 64), file.size(), options).bytes; }))
        continue;
      GuardedHeader header(std::string_view(file).substr(8, static_cast<std::size_t>(length)));
      Table table(std::pmr::new_delete_resource());
      status_of([&] { read_header(header.text(), file.size(), options, table); });
      ++read;
    }
  }
  EXPECT_GT(read, 800U);
}

// A truncated file has been cut at any byte.
TEST(Header, EveryPrefixOfAHeaderIsRefused) {
  const std::string_view header =
      R"({"__metadata__":{"k\n":"\ud83d\ude00"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8],"x":[1.5e3,{"y":null}]}})";
  for (std::size_t n = 0; n <= header.size(); ++n) {
    GuardedHeader cut(header.substr(0, n));
    Table table(std::pmr::new_delete_resource());
    const auto status = status_of([&] { read_header(cut.text(), 8 + n + 8, {}, table); });
    EXPECT_EQ(status, n == header.size() ? std::nullopt : std::optional(Status::json)) << header.substr(0, n);
  }
}

TEST(Header, TheTextIsRestored) {
  const std::string_view headers[] = {
      "{}",
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}      )",
      R"({"__metadata__":{"":"","k":"v","e\"":"\\","k2":""},"":{"shape":[],"data_offsets":[0,1],"dtype":"U8"}})",
      R"(  {"a\u0000":{"dtype":"F\u00332","shape":[0],"data_offsets":[0,0],"x":"\"","":""}})",
      R"({"a":{"dtype":"odd","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"o\u0064d","shape":[0],"data_offsets":[0,0]}})",
      R"({"a":["U8",[1],[0,1]],"a":["U8",[1],[0,1]],"b":{"dtype":{"U8":null},"shape":[0],"data_offsets":[1,1]}})",
  };
  for (const std::string_view text : headers) {
    for (const Rules rules : {Rules::standard, Rules::reference}) {
      GuardedHeader header(text);
      Table table(std::pmr::new_delete_resource());
      HeaderOptions options;
      options.rules = rules;
      options.unknown_dtypes = true;
      const std::size_t data = text.find("[0,1]") != std::string_view::npos ? 1 : 0;
      if (status_of([&] { read_header(header.text(), 8 + text.size() + data, options, table); })) {
        EXPECT_EQ(rules, Rules::standard) << text;
        continue;
      }
      for (const Tensor& tensor : table.tensors) EXPECT_EQ(tensor.name_text[tensor.name_bytes], '\0') << text;
      for (const auto& [key, value] : table.metadata) EXPECT_EQ(key.data()[key.size()] | value.data()[value.size()], 0);
      std::string raw(text.size(), '?');
      restore_header(header.text(), table, raw.data());
      EXPECT_EQ(raw, text);
    }
  }
}

Error fault_with_unknown_dtypes(std::string_view text) {
  GuardedHeader header(text);
  Table table(std::pmr::new_delete_resource());
  HeaderOptions options;
  options.unknown_dtypes = true;
  try {
    read_header(header.text(), 8 + text.size(), options, table);
  } catch (const Error& error) {
    return error;
  }
  return {Status::ok, 0, kNowhere, {}};
}

TEST(Header, AnUnknownDtypeOfControlBytesIsEscapedInMessages) {
  const Error error = fault_with_unknown_dtypes(
      R"({"t":{"dtype":"\n\u001b[2J","shape":[9223372036854775808,2],"data_offsets":[0,0]}})");
  EXPECT_EQ(error.status, Status::overflow);
  EXPECT_NE(error.message.find(R"('\x0a\x1b[2J')"), std::string::npos) << error.message;
}

// Its name is returned without a length, so "F32\u0000x" would look like F32.
TEST(Header, ADtypeThatHoldsANulIsNotListed) {
  for (const std::string_view dtype : {R"(F32\u0000x)", R"(\u0000)", R"(odd\u0000)"}) {
    const Error error =
        fault_with_unknown_dtypes(formatted(R"({{"t":{{"dtype":"{}","shape":[0],"data_offsets":[0,0]}}}})", dtype));
    EXPECT_EQ(error.status, Status::dtype) << dtype;
    EXPECT_NE(error.message.find(R"(\x00)"), std::string::npos) << error.message;
  }
}

// Counts the allocated bytes.
class Counting final : public std::pmr::memory_resource {
 public:
  std::size_t bytes = 0;

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    bytes += size;
    return std::pmr::new_delete_resource()->allocate(size, alignment);
  }
  void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, size, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

TEST(Header, ManyTensorsInAnyOrderOfTheText) {
  constexpr std::size_t kTensors = 5000;
  std::string header = "{";
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::size_t n = i * 2741 % kTensors;  // prime to 5000: each once
    header += formatted("{}\"t{}\":{{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[{},{}]}}", i == 0 ? "" : ",", n,
                        3 * n, 3 * n + 3);
  }
  header += '}';
  GuardedHeader guarded(header);
  Counting memory;
  Table table(&memory);
  ASSERT_EQ(status_of([&] { read_header(guarded.text(), 8 + header.size() + 3 * kTensors, {}, table); }), std::nullopt);
  EXPECT_LT(memory.bytes, 110 * kTensors);  // there is room for all of them before they are known
  ASSERT_EQ(table.tensors.size(), kTensors);
  for (std::size_t n = 0; n < kTensors; ++n) {
    const std::string name = formatted("t{}", n);
    ASSERT_EQ(table.tensors[n].name(), name);
    ASSERT_EQ(table.index.find(table.tensors.data(), name), n);
  }
  EXPECT_EQ(table.index.find(table.tensors.data(), "t5000"), table.index.kNone);
}

TEST(Header, EveryPlaceAroundABlockOfSixtyFourBytes) {
  for (std::size_t before = 0; before < 140; ++before) {
    const std::string name(before, 'n');
    const std::string header = "{\"" + name + "\\\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    GuardedHeader guarded(header);
    Table table(std::pmr::new_delete_resource());
    ASSERT_EQ(status_of([&] { read_header(guarded.text(), 8 + header.size() + 1, {}, table); }), std::nullopt);
    EXPECT_EQ(table.tensors[0].name(), name + '"');
  }
}

// Dimensions of two bytes each take the most memory. Shapes that nearly fill a block must not take more.
TEST(Header, LongShapesTakeNoMoreMemoryThanTheirDimensions) {
  for (const std::size_t rank : {8U, 60U, 100U, 256U, 300U, 512U, 513U, 2000U}) {
    std::string shape = "0";
    while (shape.size() < 2 * rank - 1) shape += ",0";
    std::string text = "{";
    for (std::size_t i = 0; text.size() < 400'000; ++i) {
      text += formatted(R"({}"{:x}":{{"dtype":"F4","shape":[{}],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i, shape);
    }
    text += '}';
    const std::size_t size = text.size();
    text.resize(size + kPadding);
    Counting memory;
    Table table(&memory);
    read_header({text.data(), size}, 8 + size, {}, table);

    EXPECT_LT(memory.bytes, 7 * size) << rank;
  }
}

// The shortest pairs whose keys differ. Their number is just above a power of two, where a vector that grows by itself
// has the most room to spare.
TEST(Header, MetadataOfBintensorsTakesNoMoreMemoryThanIsDocumented) {
  constexpr std::uint32_t kPairs = (1U << 18) + 1;
  std::string text("\1\xfc\1\0\4\0", 6);
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    text += {3, static_cast<char>(i >> 14), static_cast<char>(i >> 7 & 0x7F), static_cast<char>(i & 0x7F), 0};
  }
  text += '\0';  // no tensors
  const std::size_t size = text.size();
  text.resize(size + kPadding);
  Counting memory;
  Table table(&memory);
  read_header({text.data(), size}, 8 + size, {}, table);
  EXPECT_EQ(table.metadata.size(), kPairs);
  EXPECT_LT(memory.bytes, 11 * size);
}

TEST(Header, TensorsOfBintensorsOfOneNameAreNotKept) {
  std::string text("\0\xfc\0\0\4\0", 6);
  for (std::size_t i = 0; i < std::size_t{1} << 18; ++i) text += {0, 1, 0, 0, 0};
  const std::size_t size = text.size();
  text.resize(size + kPadding);
  Counting memory;
  Table table(&memory);
  EXPECT_EQ(status_of([&] { read_header({text.data(), size}, 8 + size, {}, table); }), Status::duplicate);
  EXPECT_LT(memory.bytes, 15 * size);
}

// ---- the shortcut for usual entries -------------------------------------------------------------------------------------

// The result for a header as text: the error's status, or the table.
std::string outcome(std::string header, std::uint64_t data_bytes, Rules rules, std::size_t window = kWindowBytes) {
  const std::size_t size = header.size();
  header.resize(size + kPadding);
  Table table(std::pmr::new_delete_resource());
  HeaderOptions options;
  options.rules = rules;
  options.unknown_dtypes = rules == Rules::standard;
  options.window_bytes = window;
  const auto status = status_of([&] { read_header({header.data(), size}, 8 + size + data_bytes, options, table); });
  if (status) return formatted("status {}", static_cast<int>(*status));
  std::string text;
  for (const Tensor& tensor : table.tensors) {
    text += formatted("{} {} {}..{} [", tensor.name(), tensor.dtype_name(), tensor.begin, tensor.end);
    for (const std::uint64_t dimension : tensor.shape()) text += formatted("{},", dimension);
    text += "]\n";
  }
  return text;
}

// An entry whose name has an escape cannot take the shortcut. The result must not differ.
TEST(Shortcut, TakesNothingThatTheGrammarTakesOtherwise) {
  const std::string first = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)";
  const std::string third = R"(,"c":{"dtype":"F32","shape":[],"data_offsets":[824,828]}})";
  const std::string bytes = "\"\\{}[]:, \t\n0123456789.-+eEFfn_xBU\x01\x7F\xC3";
  const char* const entries[] = {
      R"({"dtype":"F32","shape":[10,20],"data_offsets":[24,824]})",
      R"({"shape":[10,20],"data_offsets":[24,824],"dtype":"F32"})",
      "{\n \"data_offsets\": [\n 24,\n 824\n ],\n \"dtype\": \"F32\",\n \"shape\": [\n 10,\n 20\n ]\n}",
  };
  for (const std::string second : entries) {
    std::size_t accepted = 0;
    const auto compare = [&](const std::string& entry, Rules rules) {
      const std::string usual = outcome(first + "\"b\":" + entry + third, 828, rules);
      accepted += usual[0] != 's' ? 1 : 0;
      ASSERT_EQ(usual, outcome(first + "\"\\u0062\":" + entry + third, 828, rules)) << entry;
    };
    for (const Rules rules : {Rules::standard, Rules::reference, Rules::strict}) {
      for (std::size_t i = 0; i < second.size(); i += kUnderSanitizer ? 7 : 1) {
        for (std::size_t end = i + 1; end <= second.size(); ++end) {
          compare(second.substr(0, i) + second.substr(end), rules);
        }
        for (const char byte : bytes) {
          compare(second.substr(0, i) + byte + second.substr(i + 1), rules);
          compare(second.substr(0, i) + byte + second.substr(i), rules);
        }
      }
    }
    EXPECT_GT(accepted, kUnderSanitizer ? 20U : 150U);  // white space nearly everywhere, by three sets of rules
  }
}

TEST(Shortcut, TheFirstTensorBeginsAtANumber) {
  for (const std::string& begin :
       {std::string("\0", 1), std::string("0\0", 2), std::string("0\0\0\0", 4), std::string("00"), std::string("0]")}) {
    const std::string header = R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[)" + begin + ",0]}}";
    EXPECT_EQ(outcome(header, 0, Rules::standard).substr(0, 6), "status") << header;
  }
}

TEST(Shortcut, TakesEachFieldOnce) {
  const std::array<std::string, 3> fields{R"("dtype":"U8")", R"("shape":[0])", R"("data_offsets":[0,0])"};
  for (std::size_t i = 0; i < 27; ++i) {
    const std::size_t first = i / 9;
    const std::size_t second = i / 3 % 3;
    const std::size_t third = i % 3;
    const bool all = first != second && second != third && third != first;
    const std::string header = "{\"a\"\t :{" + fields[first] + ',' + fields[second] + ',' + fields[third] + "}}";
    EXPECT_EQ(outcome(header, 0, Rules::standard), all ? "a U8 0..0 [0,]\n" : "status 305") << header;
  }
}

TEST(Shortcut, TakesNoPartOfADtype) {
  for (const DtypeInfo& dtype : kDtypes) {
    for (std::size_t size = 0; size <= dtype.name.size() + 1; ++size) {
      const std::string name = (std::string(dtype.name) + "Z").substr(0, size);
      const std::string header = formatted(R"({{"a":{{"dtype":"{}","shape":[0],"data_offsets":[0,0]}}}})", name);
      const bool known = dtype_from_name(name) != Dtype::unknown;
      EXPECT_EQ(outcome(header, 0, Rules::strict), known ? formatted("a {} 0..0 [0,]\n", name) : "status 306") << name;
    }
  }
}

TEST(Shortcut, EntriesThatAWindowCuts) {
  std::string header = "{";
  std::string expected;
  for (std::uint64_t i = 0; i < 20; ++i) {
    header += formatted("{}\n \"{}\": {{\n  \"dtype\": \"{}\",\n  \"shape\": [\n   {}\n  ],\n", i == 0 ? "" : ",", i,
                        i % 2 == 0 ? "U8" : "I8", i + 1);
    header += formatted("  \"data_offsets\": [\n   {},\n   {}\n  ]\n }}", i * (i + 1) / 2, (i + 1) * (i + 2) / 2);
    expected +=
        formatted("{} {} {}..{} [{},]\n", i, i % 2 == 0 ? "U8" : "I8", i * (i + 1) / 2, (i + 1) * (i + 2) / 2, i + 1);
  }
  for (std::size_t window = 64; window < 600; ++window) {
    ASSERT_EQ(outcome(header + "\n}", 210, Rules::standard, window), expected) << window;
  }
}

TEST(Shortcut, OtherTokensWhereAnEntryHasItsOwn) {
  const std::string nuls(16, '\0');
  const struct {
    std::string first, second;
    std::uint64_t data_bytes;
  } cases[] = {
      {R"("a":{"dtype":"F8_E4M3FNUZ","shape":[1],"data_offsets":[0,1]})",
       "\"b\"" + nuls + R"(::::::::1],"data_offsets":[1,2]})", 2},
      {R"("a":{"dtype":"F32",          "shape":[1],"data_offsets":[0,4]})",
       "\"b\"" + nuls + R"({}[]"x"\ , 1],"data_offsets":[4,8]})", 8},
      {R"("a":{"dtype":"F32","shape":[1],          "data_offsets":[0,4]})",
       R"("b":{"dtype":"F32","shape":[1)" + nuls + ",,,,4,8]}", 8},
  };
  for (const auto& each : cases) {
    for (const Rules rules : {Rules::standard, Rules::reference, Rules::strict}) {
      EXPECT_EQ(outcome('{' + each.first + ',' + each.second + '}', each.data_bytes, rules), "status 303")
          << each.second;
    }
  }
}

TEST(Shortcut, NumbersOfEveryLengthAfterEachOther) {
  for (std::uint64_t before = 0, power = 1; before < 18; ++before, power *= 10) {
    for (std::uint64_t size = 1, tens = 0; tens < 18; ++tens, size *= 10) {
      const auto entry = [](char name, std::uint64_t begin, std::uint64_t end) {
        return formatted(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name, end - begin, begin, end);
      };
      const std::string header = '{' + entry('a', 0, power) + ',' + entry('b', power, power + size) + ',' +
                                 entry('c', power + size, power + 2 * size) + '}';
      EXPECT_EQ(outcome(header, power + 2 * size, Rules::standard),
                formatted("a U8 0..{0} [{0},]\nb U8 {0}..{1} [{2},]\nc U8 {1}..{3} [{2},]\n", power, power + size, size,
                          power + 2 * size));
    }
  }
}

TEST(Shortcut, ABeginThatDiffersInOneDigitFromTheEndBefore) {
  for (std::uint64_t size = 1, tens = 0; tens < 18; ++tens, size *= 10) {
    for (std::uint64_t digit = 1; digit <= size; digit *= 10) {
      const std::uint64_t begin = size + digit;
      const std::string header = formatted(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}},)"
                                           R"("b":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}}}})",
                                           size, size, begin, begin + 1);
      EXPECT_EQ(outcome(header, begin + 1, Rules::standard), "status 307") << header;
    }
  }
}

// Texts of up to 16 bytes are compared by their first and last eight.
TEST(Shortcut, ABeginThatDiffersFromTheEndBeforeOnlyBetweenItsFirstAndLastBytes) {
  const std::string space(30, ' ');
  const auto of = [](const std::string& end, const std::string& rest) {
    return outcome(R"({"a":{"dtype":"U8","shape":[123456789],"data_offsets":[0,)" + end +
                       R"(]},"b":{"dtype":"U8","shape":[1],"data_offsets":[)" + rest + "]}}",
                   123456790, Rules::standard);
  };
  EXPECT_EQ(of("123456789" + space, "12345678" + space.substr(0, 9) + ",123456790"), "status 307");
  EXPECT_EQ(of("123456789" + space, "12345678" + space + ",123456790"), "status 307");
  EXPECT_EQ(of("123456789" + space, "123456780," + space + "123456790"), "status 307");
}

// Digits are taken from the number itself, not from the longer one before it.
TEST(Shortcut, ALongNumberAfterALongerOne) {
  EXPECT_EQ(outcome(R"({"a":{"dtype":"U8","shape":[0,1234567890123456,123456789],"data_offsets":[0,0]}})", 0,
                    Rules::standard),
            "a U8 0..0 [0,1234567890123456,123456789,]\n");
}

// Shapes are stored in blocks of 512 words or fewer. A word written after a block would be overwritten by the next shape.
TEST(Shortcut, ShapesThatEndWhereABlockEnds) {
  std::string header = "{";
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < 65 * 40; ++i) {
    const std::uint64_t bytes = i % 65 == 0 ? 2 : 3;
    header += formatted(R"({}"{}":{{"dtype":"U8","shape":[{}{}],"data_offsets":[{},{}]}})", i == 0 ? "" : ",", i,
                        bytes == 2 ? "" : "1,1,1,1,1,1,1,", bytes, at, at + bytes);
    at += bytes;
  }
  EXPECT_EQ(outcome(header + '}', at, Rules::strict).substr(0, 6), "0 U8 0");
}

TEST(Shortcut, AnUnescapedNameIsNotWrittenOverAShape) {
  std::string shape = "1";
  for (std::size_t i = 1; i < 40; ++i) shape += ",1";
  const std::string header = R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]},"\u0062":)" +
                             R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]}})";
  EXPECT_EQ(outcome(header, 2, Rules::standard), "a U8 0..1 [" + shape + ",]\nb U8 1..2 [1,]\n");
}

// They are longer than the compared part, and differ only after it.
TEST(Shortcut, DtypesSpelledWithEscapes) {
  std::string header = "{";
  std::string expected;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const char* const ending = i % 2 == 0 ? "4M3" : "5M2";
    header += formatted(R"({}"{}":{{"dtype":"\u0046\u0038\u005f\u0045{}","shape":[1],"data_offsets":[{},{}]}})",
                        i == 0 ? "" : ",", i, ending, i, i + 1);
    expected += formatted("{0} F8_E{1} {0}..{2} [1,]\n", i, ending, i + 1);
  }
  EXPECT_EQ(outcome(header + '}', 6, Rules::standard), expected);
}

TEST(Shortcut, DtypesOfEveryLengthAndMoreDimensionsThanItTakes) {
  std::string header = "{";
  std::string expected;
  std::uint64_t at = 0;
  for (int round = 0; round < 3; ++round) {
    for (const DtypeInfo& dtype : kDtypes) {
      if (dtype.bits == 0) continue;
      for (const std::size_t rank : {6U, 7U, 8U, 9U, 10U, 62U, 63U, 64U}) {
        const std::string name = formatted("{}.{}.{}", dtype.name, rank, round);
        std::string shape = "8";
        for (std::size_t i = 1; i < rank; ++i) shape.insert(0, "1,");
        header += formatted(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                            header.size() > 1 ? "," : "", name, dtype.name, shape, at, at + dtype.bits);
        expected += formatted("{} {} {}..{} [{},]\n", name, dtype.name, at, at + dtype.bits, shape);
        at += dtype.bits;
      }
    }
  }
  EXPECT_EQ(outcome(header + '}', at, Rules::standard), expected);
}

Error fault_of(const std::string& header, std::uint64_t data, const HeaderOptions& options) {
  GuardedHeader guarded(header);
  Table table(std::pmr::new_delete_resource());
  try {
    read_header(guarded.text(), kLengthBytes + header.size() + data, options, table);
  } catch (const Error& error) {
    return error;
  }
  return {Status::ok, 0, kNowhere, {}};
}

TEST(Header, WhatIsWrongWithItIsSaid) {
  const struct {
    const char* name;
    const char* header;
    Rules rules;
    Status status;
    const char* says;
  } cases[] = {
      {"more bytes than 64 bits count", R"({"t":{"dtype":"X","shape":[1],"data_offsets":[0,18446744073709551615]}})",
       Rules::standard, Status::coverage, " of 18446744073709551615 bytes"},
      {"a dtype as a map of two", R"({"t":{"dtype":{"U8":null,"U8":null},"shape":[1],"data_offsets":[0,1]}})",
       Rules::reference, Status::schema, "an object with two members"},
      {"a dtype as an empty map", R"({"t":{"dtype":{},"shape":[1],"data_offsets":[0,1]}})", Rules::reference,
       Status::schema, "tensor 't': dtype is an empty object"},
      {"a dtype as a map to a number", R"({"t":{"dtype":{"U8":1},"shape":[1],"data_offsets":[0,1]}})", Rules::reference,
       Status::schema, "an object with a value"},
      {"a dtype as a map", R"({"t":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}})", Rules::reference,
       Status::ok, ""},
      {"an entry of four values", R"({"t":["U8",[1],[0,1],1]})", Rules::reference, Status::schema, "more than three"},
      {"only white space", "  ", Rules::strict, Status::json, "expected a value"},
      {"not UTF-8", "{\"\xFF\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", Rules::standard, Status::utf8,
       "byte 0xff"},
      {"more text", R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} {})", Rules::standard, Status::json,
       "more text after the end"},
      {"a name without quotes", R"({xtx:{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", Rules::standard,
       Status::json, "expected '\"', found 'x'"},
      {"no colon", R"({"t",{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", Rules::standard, Status::json,
       "expected ':', found ','"},
      {"a control byte for a colon", "{\"t\"\x7F", Rules::standard, Status::json, "expected ':', found byte 0x7f"},
      {"an open end", "{", Rules::standard, Status::json, "the text ends where '\"' was expected"},
      {"a dtype without quotes", R"({"t":{"dtype":xU8x,"shape":[1],"data_offsets":[0,1]}})", Rules::standard,
       Status::json, "expected a value"},
      {"no dtype", R"({"t":{"dtype":,"shape":[0],"data_offsets":[0,1]}})", Rules::standard, Status::json,
       "expected a value"},
      {"no value", R"({"t":{"dtype":"U8","shape":[0],"x":}})", Rules::standard, Status::json, "expected a value"},
      {"a product that has a tensor's size in its lower bits",
       R"({"t":{"dtype":"U8","shape":[2305843009213693953],"data_offsets":[0,1]}})", Rules::standard, Status::overflow,
       "more than 2^64-1 bits"},
      {"a byte and a half", R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", Rules::standard,
       Status::misaligned, "has 12 bits"},
      {"8 dimensions", R"({"t":{"dtype":"U8","shape":[1,1,1,1,1,1,1,2],"data_offsets":[0,1]}})", Rules::standard,
       Status::tensor_size, "[1,1,1,1,1,1,1,2] needs 2 bytes"},
      {"9 dimensions", R"({"t":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,1]}})", Rules::standard,
       Status::tensor_size, "[1,1,1,1,1,1,1,1,...] needs 2 bytes"},
      {"backwards",
       R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"z":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})",
       Rules::standard, Status::offsets, "offsets 1..0 run backwards"},
      {"no bytes after a hole", R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})", Rules::standard,
       Status::offsets, "leave a hole"},
      {"1000 bytes", R"({"t":{"dtype":"U8","shape":[935],"data_offsets":[0,935]}})", Rules::standard, Status::coverage,
       "the file has 66 bytes of 1.0 kB (66 of 1000 bytes)"},
      {"as many bytes as the file and its header", R"({"t":{"dtype":"U8","shape":[131],"data_offsets":[0,131]}})",
       Rules::standard, Status::coverage, "the file has 66 of 196 bytes"},
      {"a null that goes on", R"({"t":{"x":nullz}})", Rules::standard, Status::json, ""},
      {"no escape, in an ignored value", R"({"t":{"x":"\q"}})", Rules::standard, Status::json, "invalid escape"},
      {"two strings, then one that does not end", R"({"a""b","c)", Rules::standard, Status::json, "expected ':'"},
      {"a space after an escape", R"({"\n t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", Rules::standard,
       Status::ok, ""},
  };
  for (const auto& [name, header, rules, status, says] : cases) {
    HeaderOptions options;
    options.rules = rules;
    options.unknown_dtypes = true;
    const Error error = fault_of(header, 1, options);
    EXPECT_EQ(error.status, status) << name << ": " << error.message;
    EXPECT_NE(error.message.find(says), std::string::npos) << name << ": " << error.message;
  }
  const Error no_data = fault_of(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 0, {});
  EXPECT_EQ(no_data.status, Status::coverage);
}

}  // namespace
}  // namespace st::format::header_test
