// diagnose_header() reports every error of a header, and first the one that opening reports.
// SPDX-License-Identifier: Apache-2.0
#include "format/finding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "header_read.hpp"

namespace st::format::finding_test {
namespace {

Findings diagnose(const std::string& header, std::uint64_t data, const HeaderOptions& options = {}) {
  std::vector<char> text(header.begin(), header.end());
  text.resize(header.size() + kPadding);
  Findings findings;
  diagnose_header({text.data(), header.size()}, kLengthBytes + header.size() + data, options, findings);
  return findings;
}

// "OFFSETS a" for an error of tensor a.
std::vector<std::string> faults(const std::string& header, std::uint64_t data) {
  std::vector<std::string> lines;
  for (const Finding& finding : diagnose(header, data)) {
    const auto status = static_cast<int>(finding.fault.status);
    lines.push_back(std::to_string(status) + (finding.tensor != nullptr ? " " + *finding.tensor : ""));
  }
  return lines;
}

std::string entry(const std::string& name, const std::string& rest) { return "\"" + name + "\":{" + rest + "}"; }
std::string u8(const std::string& name, int begin, int end) {
  return entry(name, "\"dtype\":\"U8\",\"shape\":[" + std::to_string(end - begin) + "],\"data_offsets\":[" +
                         std::to_string(begin) + "," + std::to_string(end) + "]");
}

struct Case {
  const char* name;
  std::string header;
  std::uint64_t data;
  std::vector<std::string> faults;
};

const Case kCases[] = {
    {"nothing_is_wrong", "{" + u8("a", 0, 4) + "}", 4, {}},
    {"a_hole_and_an_overlap", "{" + u8("a", 2, 4) + "," + u8("b", 3, 6) + "}", 6, {"307 a", "307 b"}},
    {"backwards",
     "{" + u8("a", 0, 4) + "," + entry("b", R"("dtype":"U8","shape":[4],"data_offsets":[8,4])") + "}",
     4,
     {"307 b"}},
    {"two_sizes_and_the_end",
     "{" + entry("a", R"("dtype":"F32","shape":[2],"data_offsets":[0,4])") + "," +
         entry("b", R"("dtype":"F16","shape":[1],"data_offsets":[4,8])") + "}",
     9,
     {"310 a", "310 b", "311"}},
    {"dtypes_that_are_none",
     "{" + entry("a", R"("dtype":"F33","shape":[1],"data_offsets":[0,4])") + "," +
         entry("b", R"("dtype":7,"shape":[1],"data_offsets":[4,8])") + "}",
     8,
     {"306 a", "304 b"}},
    {"fields_that_are_missing", R"({"a":{},"b":{"dtype":"U8"}})", 0, {"304 a", "304 a", "304 a", "304 b", "304 b"}},
    {"given_twice",
     "{" + u8("a", 0, 4) + "," + u8("a", 4, 8) + R"(,"__metadata__":{"k":"1","k":"2"}})",
     8,
     {"305", "305 a"}},
    {"given_twice_in_another_order", "{" + u8("a", 4, 8) + "," + u8("a", 0, 4) + "}", 8, {"305 a"}},
    {"escapes_hide_no_name",
     R"({"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
     0,
     {"305 a"}},
    {"numbers_that_are_none",
     R"({"a":{"dtype":"U8","shape":[1.5,"x",-1],"data_offsets":[0]}})",
     0,
     {"304 a", "304 a", "304 a", "304 a"}},
    {"an_entry_that_is_none", R"({"a":[1],"b":null,"__metadata__":{"k":1}})", 0, {"304 a", "304 b", "304"}},
    {"elements_that_do_not_fit_bytes", R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, {"309 a"}},
    {"too_large", R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, {"308 a"}},
    {"given_twice_in_another_order", "{" + u8("a", 4, 8) + "," + u8("a", 0, 4) + "}", 8, {"305 a"}},
    {"a_fault_in_another_order",
     "{" + entry("a", R"("dtype":"X","shape":[1],"data_offsets":[4,8])") + "," + u8("b", 0, 4) + "}",
     8,
     {"306 a"}},
    {"not_an_object", "[]", 1, {"304"}},
    {"the_tensor_after_a_faulty_one_is_checked_too",
     R"({"a":7,"\u0062":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}})",
     1,
     {"304 a", "310 b"}},
    {"the_grammar_ends", R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]},"b":})", 4, {"306 a", "303 b"}},
};

TEST(Diagnose, FindsEveryFault) {
  for (const Case& each : kCases) EXPECT_EQ(faults(each.header, each.data), each.faults) << each.name;
}

// In the layout of the first error; "\1" is U8, "\x0b" F32.
TEST(Diagnose, FindsEveryFaultOfBintensors) {
  using namespace std::string_literals;
  EXPECT_EQ(faults("\0\3\1a\x10\1\1\0\1\1b\1\1\2\2\4\1b\1\1\1\4\5"s, 9),
            (std::vector<std::string>{"306 a", "305 b", "307 b", "311"}));
  EXPECT_EQ(faults("\0\1\x0b\1\1\0\4\1\1a\1"s, 6), (std::vector<std::string>{"304 a", "311"}));
  EXPECT_EQ(faults("\0\3\1a\1\1\1\0\1\1a\1\1\1\1\2\xff"s, 2),
            (std::vector<std::string>{"304", "305 a"}));  // the grammar ends here; opening reports this first
  EXPECT_EQ(faults("\0\1\1a\1\1\4\0\4 "s, 4), std::vector<std::string>{});
  EXPECT_EQ(faults("\0\2\1a\1\1\1\0\1\1a\1\1\1\1\2"s, 2), std::vector<std::string>{"305 a"});  // its bytes count
  // In the older layout the first name that a number gets counts.
  EXPECT_EQ(faults("\0\2\x0d\1\2\0\x08\x0d\1\1\x08\x10\2\1a\0\1b\0"s, 16),
            (std::vector<std::string>{"305 b", "310 a"}));
  EXPECT_EQ(faults("\0\2\1b\1\1\4\4\x8\1a\1\1\4\0\4"s, 8),
            (std::vector<std::string>{"307 b", "307 a"}));  // the header has another order than the data

  HeaderOptions strict;
  strict.rules = Rules::strict;
  EXPECT_EQ(diagnose("\1\2\1k\1v\1k\1w\1\1a\1\1\4\0\4-"s, 4, strict).size(), 2U);
  // By the standard rules this is the older layout, so its padding is reported too. Opening by the strict rules takes it
  // for the current layout with a wrong size.
  const std::string in_older = "\0\1\x08\1\2\0\4\1\1a\0\1\0\0\4 "s;
  EXPECT_EQ(diagnose(in_older, 4).size(), 0U);
  const Findings found = diagnose(in_older, 4, strict);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].fault.status, Status::tensor_size);
  EXPECT_EQ(found[1].fault.status, Status::schema);
  // The current layout ends later than the padding of the older one begins.
  EXPECT_EQ(diagnose("\0\1\x0b\1\1\0\4\1\1a\0xyz\1"s, 4, strict).size(), 2U);
}

TEST(Diagnose, EndsAfterManyFindingsOfBintensors) {
  using namespace std::string_literals;
  std::string header = "\0\xfb\x88\x13"s;  // 5000 tensors
  for (int i = 0; i < 5000; ++i) header += "\1a\1\1\0\0\0"s;
  EXPECT_EQ(diagnose(header, 0).size(), kMostFindings + 1);
  header.pop_back();  // opening reports this first
  EXPECT_EQ(diagnose(header, 0).size(), kMostFindings + 1);

  header = "\0\xfb\xf5\x01"s;  // 501 tensors, each except the first with wrong offsets and a wrong size
  for (int i = 0; i < 501; ++i)
    header += {2, static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26), 1, 1, 2, 0, 1};
  for (const std::uint64_t data : {0U, 1U, 2U}) EXPECT_EQ(diagnose(header, data).size(), kMostFindings + 1);
}

// Input that the caller's options accept is not an error.
TEST(Diagnose, KnowsTheOptions) {
  HeaderOptions options;
  const std::string unknown = "{" + entry("a", R"("dtype":"X","shape":[1],"data_offsets":[0,1])") + "}";
  EXPECT_EQ(diagnose(unknown, 1, options).size(), 1U);
  options.unknown_dtypes = true;
  EXPECT_EQ(diagnose(unknown, 1, options).size(), 0U);

  options.rules = Rules::reference;
  EXPECT_EQ(diagnose(R"({"a":["U8",[2],[0,2]],"b":{"dtype":{"U8":null},"shape":[1],"data_offsets":[2,3]}})", 3, options)
                .size(),
            0U);
  EXPECT_EQ(diagnose(R"({"a":["U8",[2]]})", 0, options).size(), 1U);
  EXPECT_EQ(diagnose("{" + u8("a", 0, 9) + "," + u8("a", 0, 4) + "}", 4, options).size(), 0U);
  EXPECT_EQ(diagnose(R"({"__metadata__":{"k":"1","k":"2"}})", 0, options).size(), 0U);

  options.rules = Rules::strict;
  EXPECT_EQ(diagnose(R"({"__metadata__":null})", 0, options).size(), 1U);
  EXPECT_EQ(diagnose(R"( {"__metadata__":null})", 0, options).size(), 2U);

  options.index_names = false;  // names that occur twice are found nevertheless
  EXPECT_EQ(diagnose("{" + u8("a", 0, 4) + "," + u8("a", 4, 8) + "," + u8("b", 9, 10) + "}", 10, options).size(), 2U);
}

TEST(Diagnose, EndsAfterManyFindings) {
  std::string header = "{";
  for (int i = 0; i < 5000; ++i) header += (i == 0 ? "" : ",") + entry(std::to_string(i), "");
  EXPECT_EQ(diagnose(header + "}", 0).size(), kMostFindings + 1);

  header = "{";
  for (std::size_t i = 0; i < kMostFindings; ++i) header += (i == 0 ? "" : ",") + formatted("\"{}\":1", i);
  EXPECT_EQ(diagnose(header + "]", 0).size(), kMostFindings + 1);  // the last is that the text is not JSON
}

TEST(Diagnose, KeepsTheNameOfATensorOnce) {
  const Findings found = diagnose(R"({"a":{}})", 0);
  ASSERT_EQ(found.size(), 3U);
  for (const Finding& finding : found) EXPECT_EQ(finding.tensor, found[0].tensor);

  // 306 a, 305, 307 a
  const Findings others =
      diagnose(R"({"__metadata__":{"k":"","k":""},"a":{"dtype":"?","shape":[1],"data_offsets":[2,3]}})", 3);
  ASSERT_EQ(others.size(), 3U);
  EXPECT_EQ(others[1].tensor, nullptr);
  EXPECT_EQ(others[2].tensor, others[0].tensor);
}

// "STATUS OFFSET TENSOR".
std::vector<std::string> places(const std::string& header, std::uint64_t data, const HeaderOptions& options = {}) {
  std::vector<std::string> lines;
  for (const Finding& finding : diagnose(header, data, options)) {
    const std::string offset = finding.fault.offset == kNowhere ? "nowhere" : std::to_string(finding.fault.offset);
    lines.push_back(formatted("{} {}", static_cast<int>(finding.fault.status), offset) +
                    (finding.tensor != nullptr ? " " + *finding.tensor : ""));
  }
  return lines;
}

TEST(Diagnose, ReportsAFaultOnceWithItsTensorWhereOpeningReportsIt) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(places(R"({"a":{"dtype":"U8","shape":[0]}})", 0), Lines{"304 13 a"});      // at its '{'
  EXPECT_EQ(places("{" + u8("a", 100, 101) + "}", 1), (Lines{"307 66 a", "311 66"}));  // after the end of the file
  EXPECT_EQ(places(R"({"a":{"dtype":"U8", "dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0), Lines{"305 27 a"});
  EXPECT_EQ(places(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})", 0), Lines{"304 54 a"});
  EXPECT_EQ(places(R"({"__metadata__":{}, "__metadata__":{}})", 0), Lines{"305 27"});
  EXPECT_EQ(places(R"({"__metadata__":{"k":"1","\u006b":"2"}})", 0), Lines{"305 nowhere"});
  EXPECT_EQ(places(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                   R"("\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                   0),
            Lines{"305 nowhere a"});
  EXPECT_EQ(places("{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0), Lines{"302 11"});
}

// Names that differ only in invalid UTF-8 bytes are different names, and are not returned.
TEST(Diagnose, ReportsTheFaultsNextToTextThatIsNotUtf8) {
  using Lines = std::vector<std::string>;
  const std::string hole = entry("b", R"("dtype":"U8","shape":[1],"data_offsets":[2,3])");
  EXPECT_EQ(faults("{" + u8("a\xff", 0, 1) + "," + hole + "," + entry("c", "") + "}", 3),
            (Lines{"302", "304 c", "304 c", "304 c", "307 b"}));
  EXPECT_EQ(faults("{" + entry("a\xff", R"("dtype":"?","shape":[0],"data_offsets":[0,0])") + "," + u8("a\xfe", 0, 1) +
                       "," + u8("a\xfe", 1, 2) + "}",
                   2),
            (Lines{"302", "306", "305"}));
  EXPECT_EQ(faults("{" + u8("b", 0, 1) + R"(,"x\)" + "\xc3\xa4\xff\":{}}", 1), (Lines{"302", "303"}));
  EXPECT_EQ(faults("{" + u8("b", 0, 2) + ",\xff}", 1), (Lines{"302", "303"}));

  HeaderOptions small;
  small.window_bytes = 64;
  const std::string long_name(200, 'n');
  for (const std::string& name : {std::string("a\xff"), long_name + "\xff", "\xff" + long_name}) {
    EXPECT_EQ(diagnose("{" + u8(name, 0, 1) + "," + hole + "," + entry("c", "") + "}", 3, small).size(), 5U) << name;
  }
}

TEST(Diagnose, ReportsTheSizeOfATensorOfAnUnknownDtype) {
  HeaderOptions options;
  options.unknown_dtypes = true;
  EXPECT_EQ(
      places("{" + entry("a", R"("dtype":"X","shape":[4294967296,4294967296],"data_offsets":[0,0])") + "}", 0, options),
      std::vector<std::string>{formatted("308 {} a", kLengthBytes + 72)});
}

// Each is JSON, so no finding says that it is not.
TEST(Diagnose, FindsTheFaultsOfWhatOnlyTheReferenceTakes) {
  HeaderOptions reference;
  reference.rules = Rules::reference;
  const auto of_entry = [&](const std::string& text) { return places("{\"a\":" + text + "}", 1, reference); };
  const auto of_dtype = [&](const std::string& text) {
    return of_entry("{\"dtype\":" + text + R"(,"shape":[1],"data_offsets":[0,1]})");
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(of_dtype(R"({"U8":null})"), Lines{});
  EXPECT_EQ(of_dtype(R"({})"), Lines{"304 22 a"});
  EXPECT_EQ(of_dtype(R"({"U8":1})"), Lines{"304 22 a"});
  EXPECT_EQ(of_dtype(R"({"U8":null,"U8":null,"x":[{}]})"), Lines{"304 22 a"});
  EXPECT_EQ(of_dtype(R"({"X":1,"U8":null})"), (Lines{"306 22 a", "304 22 a", "304 22 a"}));
  EXPECT_EQ(of_entry(R"(["U8",[1],[0,1],{},null])"), Lines{"304 13 a"});
  EXPECT_EQ(of_entry(R"(["U8",[1]])"), (Lines{"304 13 a", formatted("311 {}", kLengthBytes + 16)}));
  EXPECT_EQ(of_entry("[]"), (Lines{"304 13 a", formatted("311 {}", kLengthBytes + 8)}));
}

// Wrong values in a shape. Some contain the bracket used to estimate the number of dimensions.
TEST(Diagnose, ReadsShapesWithBracketsInThem) {
  for (const char* const wrong : {"[1,2]", "\"]\"", "[]", "{\"]\":[[]]}"}) {
    std::string shape = wrong;
    for (int i = 0; i < 3000; ++i) shape += ",7";
    const std::string bad = entry("a", "\"dtype\":\"U8\",\"shape\":[" + shape + "],\"data_offsets\":[0,4]");
    EXPECT_EQ(faults("{" + bad + "," + u8("b", 4, 8) + "," + u8("c", 8, 9) + "}", 9), std::vector<std::string>{"304 a"})
        << wrong;
  }
}

TEST(Diagnose, GoesOnAfterEachFaultyValue) {
  const std::string good = u8("g", 0, 0);
  const std::string entries[] = {
      "\"a\":7",
      "\"a\":[\"U8\",[0],[0,0]]",
      entry("a", ""),
      entry("a", R"("dtype":{"U8":null},"shape":[0],"data_offsets":[0,0])"),
      entry("a", R"("dtype":"x\u0000","shape":[0],"data_offsets":[0,0])"),
      entry("a", R"("dtype":"U8","shape":{"x":[]},"data_offsets":[0,0])"),
      entry("a", R"("dtype":"U8","shape":[0],"data_offsets":{})"),
      entry("a", R"("dtype":"U8","shape":[0],"data_offsets":[])"),
      entry("a", R"("dtype":"U8","shape":[0],"data_offsets":[0])"),
      entry("a", R"("dtype":"U8","shape":[0],"data_offsets":[0,0,[],"x"])"),
      "\"__metadata__\":[]",
      R"("__metadata__":{"a":{},"b":"c"})",
      R"("__metadata__":{},"__metadata__":{"k":"1","k":7})",
  };
  for (const std::string& each : entries) {
    const std::vector<std::string> before = faults("{" + each + "," + good + "}", 0);
    std::vector<std::string> after = before;
    after.push_back("306 z");
    EXPECT_EQ(faults("{" + each + "," + entry("z", R"("dtype":"?","shape":[0],"data_offsets":[0,0])") + "}", 0), after)
        << each;
    EXPECT_FALSE(before.empty()) << each;
  }
}

// The offsets of a tensor are checked even if its other fields are wrong, and its name even if all fields are.
TEST(Diagnose, ComparesFaultyTensorsWithTheOthers) {
  using Lines = std::vector<std::string>;
  const auto of = [](const std::string& fields) { return faults("{" + entry("a", fields) + "}", 3); };
  EXPECT_EQ(of(R"("shape":[1],"data_offsets":[2,3])"), (Lines{"304 a", "307 a"}));
  EXPECT_EQ(of(R"("dtype":"?","shape":[1,1],"data_offsets":[2,3])"), (Lines{"306 a", "307 a"}));
  EXPECT_EQ(of(R"("dtype":"U8","shape":[1],"data_offsets":[2,3,4])"), (Lines{"304 a", "311"}));
  EXPECT_EQ(of(R"("dtype":"U8","data_offsets":[2,3])"), (Lines{"304 a", "307 a"}));
  EXPECT_EQ(of(R"("dtype":"U8","shape":[true],"data_offsets":[2,3])"), (Lines{"304 a", "307 a"}));
  EXPECT_EQ(of(R"("data_offsets":[2,3],"shape":[1],"shape":[1],"dtype":"U8")"), (Lines{"305 a", "307 a"}));
  EXPECT_EQ(of(R"("dtype":"U8","shape":[1],"data_offsets":[2,3],"dtype":"U8")"), (Lines{"305 a", "307 a"}));
  EXPECT_EQ(of(R"("dtype":"U8","shape":[2],"data_offsets":[0,3],"shape":[2])"), (Lines{"305 a", "310 a"}));
  EXPECT_EQ(faults(R"({"a":1,"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":null})", 0),
            (Lines{"304 a", "304 a", "305 a", "305 a"}));
  HeaderOptions reference;
  reference.rules = Rules::reference;
  EXPECT_EQ(places(R"({"a":["U8",[1],[2,3],4]})", 3, reference), (Lines{"304 13 a", "307 34 a"}));
}

// At most 127 nested containers, including those around the skipped value.
TEST(Diagnose, CountsTheContainersAroundAValueThatIsSkipped) {
  HeaderOptions reference;
  reference.rules = Rules::reference;
  const std::pair<std::string, std::string> places[] = {
      {R"({"a":{"dtype":{"U8":)", R"(},"shape":[1],"data_offsets":[0,1]}})"},
      {R"({"a":{"dtype":{"U8":null,"x":)", R"(},"shape":[1],"data_offsets":[0,1]}})"},
      {R"({"a":{"dtype":"U8","shape":[)", R"(],"data_offsets":[0,1]}})"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,)", "]}}"},
  };
  for (const auto& [before, after] : places) {
    for (const std::size_t depth : {124U, 125U}) {  // and three around it
      const Findings found = diagnose(before + std::string(depth, '[') + std::string(depth, ']') + after, 1, reference);
      const bool is_json =
          std::none_of(found.begin(), found.end(), [](auto& f) { return f.fault.status == Status::json; });
      EXPECT_EQ(is_json, depth == 124) << before << depth;
    }
  }
}

struct Seed {
  std::string header;
  std::uint64_t data;
};

std::vector<Seed> seeds() {
  std::vector<Seed> all;
  for (const char* const folder : {"/conformance/files", "/conformance/bintensors"}) {
    const std::size_t earlier = all.size();
    for (const auto& file : std::filesystem::directory_iterator(ST_TESTS_DIR + std::string(folder))) {
      std::ifstream in(file.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      if (bytes.size() <= kLengthBytes || bytes.size() > 1'000'000) continue;
      const std::uint64_t length = load_length({bytes.data(), kLengthBytes});
      if (length > bytes.size() - kLengthBytes || length == 0) continue;
      all.push_back(
          {bytes.substr(kLengthBytes, static_cast<std::size_t>(length)), bytes.size() - kLengthBytes - length});
    }
    EXPECT_GT(all.size(), earlier) << folder << ": this test finds no header there";
  }
  std::sort(all.begin(), all.end(), [](const Seed& a, const Seed& b) { return a.header < b.header; });
  return all;
}

std::vector<HeaderOptions> every_mode() {
  std::vector<HeaderOptions> modes;
  for (const Rules rules : {Rules::standard, Rules::strict, Rules::reference}) {
    for (const bool unknown_dtypes : {false, true}) {
      for (const std::size_t window : {kWindowBytes, std::size_t{64}}) {
        HeaderOptions& mode = modes.emplace_back();
        mode.rules = rules;
        mode.unknown_dtypes = unknown_dtypes;
        mode.window_bytes = window;
      }
    }
  }
  return modes;
}

// Status::ok if the header is accepted. Not error_of(), which checks other things before the header.
Error error_of_opening(const Seed& seed, const HeaderOptions& options) {
  std::vector<char> text(seed.header.begin(), seed.header.end());
  text.resize(seed.header.size() + kPadding);
  Table table(std::pmr::new_delete_resource());
  try {
    read_header({text.data(), seed.header.size()}, kLengthBytes + seed.header.size() + seed.data, options, table);
    return {Status::ok, 0, kNowhere, {}};
  } catch (const Error& error) {
    return error;
  }
}

// Returns whether opening rejects it.
bool first_is_that_of_opening(const Seed& seed, const HeaderOptions& options) {
  const Error error = error_of_opening(seed, options);
  const Findings found = diagnose(seed.header, seed.data, options);
  EXPECT_EQ(found.empty(), error.status == Status::ok) << error.message << " of " << seed.header;
  if (found.empty()) return false;
  const Finding& first = found.front();
  EXPECT_EQ(first.fault.status, error.status) << seed.header;
  EXPECT_EQ(first.fault.offset, error.offset) << seed.header;
  EXPECT_EQ(first.fault.message, error.message) << seed.header;
  const bool names_one = error.message.starts_with("tensor '") || error.message.find(": tensor '") != std::string::npos;
  EXPECT_EQ(first.tensor != nullptr, names_one) << error.message << " of " << seed.header;
  return true;
}

TEST(Diagnose, HasFirstTheFaultThatOpeningReports) {
  std::size_t refused = 0;
  for (const Seed& seed : seeds()) {
    for (const HeaderOptions& mode : every_mode()) {
      if (first_is_that_of_opening(seed, mode)) ++refused;
    }
  }
  EXPECT_GT(refused, 500U);
}

TEST(Diagnose, HasFirstTheFaultThatOpeningReportsOfMutatedHeaders) {
  const std::vector<Seed> originals = seeds();
  const std::vector<HeaderOptions> modes = every_mode();
  const std::string pieces[] = {"\"",
                                "\\",
                                "{",
                                "}",
                                "[",
                                "]",
                                ":",
                                ",",
                                "0",
                                "9",
                                " ",
                                "null",
                                "1e999",
                                "\xff",
                                "\x01",
                                "\\u0061",
                                "\"a\":",
                                "{\"U8\":null}",
                                "\"dtype\":\"F32\",",
                                "\"shape\":[1],",
                                "\"data_offsets\":[0,4],",
                                "\"__metadata__\":{\"a\":\"b\"},",
                                "[\"U8\",[1],[0,1]]"};
  std::mt19937_64 random(1);
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    Seed seed = originals[below(originals.size())];
    if (seed.header.size() > 2000) continue;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(seed.header.size());
      const std::size_t from = below(seed.header.size());
      switch (below(4)) {
        case 0: seed.header.insert(at, pieces[below(std::size(pieces))]); break;
        case 1: seed.header.replace(at, 1, pieces[below(std::size(pieces))]); break;
        case 2: seed.header.erase(at, 1 + below(6)); break;
        default: seed.header.insert(at, seed.header.substr(from, below(80))); break;
      }
      if (seed.header.empty()) seed.header = "{";
    }
    if (first_is_that_of_opening(seed, modes[below(modes.size())])) ++refused;
    ASSERT_FALSE(HasFailure()) << "case " << i;
  }
  EXPECT_GT(refused, 10'000U);
}

}  // namespace
}  // namespace st::format::finding_test
