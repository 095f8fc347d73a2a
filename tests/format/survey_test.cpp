// Every fault of a header, not the first only; and the first is always among them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "header_read.hpp"

namespace st::format {
namespace {

Findings survey(const std::string& header, std::uint64_t data, const HeaderOptions& options = {}) {
  std::vector<char> text(header.begin(), header.end());
  text.resize(header.size() + kPadding);
  Findings findings;
  survey_header({text.data(), header.size()}, kLengthBytes + header.size() + data, options, findings);
  return findings;
}

// "OFFSETS a" for a fault of tensor a.
std::vector<std::string> faults(const std::string& header, std::uint64_t data) {
  std::vector<std::string> lines;
  for (const Finding& finding : survey(header, data)) {
    const auto status = static_cast<int>(finding.fault.status);
    lines.push_back(std::to_string(status) + (finding.has_tensor ? " " + finding.tensor : ""));
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
    {"the_grammar_ends", R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]},"b":})", 4, {"306 a", "303 b"}},
};

TEST(Survey, FindsEveryFault) {
  for (const Case& each : kCases) EXPECT_EQ(faults(each.header, each.data), each.faults) << each.name;
}

// By the layout that the first fault is about; "\1" is U8, "\x0b" F32.
TEST(Survey, FindsEveryFaultOfBintensors) {
  using namespace std::string_literals;
  EXPECT_EQ(faults("\0\3\1a\x10\1\1\0\1\1b\1\1\2\2\4\1b\1\1\1\4\5"s, 9),
            (std::vector<std::string>{"306 a", "305 b", "307 b", "311"}));
  EXPECT_EQ(faults("\0\1\x0b\1\1\0\4\1\1a\1"s, 6), (std::vector<std::string>{"304 a", "311"}));
  EXPECT_EQ(faults("\0\3\1a\1\1\1\0\1\1a\1\1\1\1\2\xff"s, 2),
            (std::vector<std::string>{"305 a", "304"}));  // the grammar ends
  EXPECT_EQ(faults("\0\1\1a\1\1\4\0\4 "s, 4), std::vector<std::string>{});
  EXPECT_EQ(faults("\0\2\1b\1\1\4\4\x8\1a\1\1\4\0\4"s, 8),
            (std::vector<std::string>{"307 b", "307 a"}));  // the header has another order than the data

  HeaderOptions strict;
  strict.rules = Rules::strict;
  EXPECT_EQ(survey("\1\2\1k\1v\1k\1w\1\1a\1\1\4\0\4-"s, 4, strict).size(), 2U);
}

TEST(Survey, EndsAfterManyFindingsOfBintensors) {
  using namespace std::string_literals;
  std::string header = "\0\xfb\x88\x13"s;  // 5000 tensors
  for (int i = 0; i < 5000; ++i) header += "\1a\1\1\0\0\0"s;
  EXPECT_EQ(survey(header, 0).size(), kMostFindings + 1);

  header = "\0\xfb\xf5\x01"s;  // 501 tensors, each at a wrong place and of a wrong size, but for the first
  for (int i = 0; i < 501; ++i)
    header += {2, static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26), 1, 1, 2, 0, 1};
  for (const std::uint64_t data : {0U, 1U, 2U}) EXPECT_EQ(survey(header, data).size(), kMostFindings + 1);
}

// What the caller's options take is no fault.
TEST(Survey, KnowsTheOptions) {
  HeaderOptions options;
  const std::string unknown = "{" + entry("a", R"("dtype":"X","shape":[1],"data_offsets":[0,1])") + "}";
  EXPECT_EQ(survey(unknown, 1, options).size(), 1U);
  options.unknown_dtypes = true;
  EXPECT_EQ(survey(unknown, 1, options).size(), 0U);

  options.rules = Rules::reference;
  EXPECT_EQ(
      survey(R"({"a":["U8",[2],[0,2]],"b":{"dtype":{"U8":null},"shape":[1],"data_offsets":[2,3]}})", 3, options).size(),
      0U);
  EXPECT_EQ(survey(R"({"a":["U8",[2]]})", 0, options).size(), 1U);
  EXPECT_EQ(survey("{" + u8("a", 0, 9) + "," + u8("a", 0, 4) + "}", 4, options).size(), 0U);
  EXPECT_EQ(survey(R"({"__metadata__":{"k":"1","k":"2"}})", 0, options).size(), 0U);

  options.rules = Rules::strict;
  EXPECT_EQ(survey(R"({"__metadata__":null})", 0, options).size(), 1U);
  EXPECT_EQ(survey(R"( {"__metadata__":null})", 0, options).size(), 2U);
}

TEST(Survey, EndsAfterManyFindings) {
  std::string header = "{";
  for (int i = 0; i < 5000; ++i) header += (i == 0 ? "" : ",") + entry(std::to_string(i), "");
  EXPECT_EQ(survey(header + "}", 0).size(), kMostFindings + 1);
}

// Whatever is refused has a finding of the same status, except where the text is no JSON or the rule is only ours.
TEST(Survey, HasTheFaultThatOpeningReports) {
  std::size_t refused = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(ST_TESTS_DIR) + "/conformance/files")) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (bytes.size() < kLengthBytes || bytes.size() > 1'000'000) continue;
    const std::uint64_t length = load_length({bytes.data(), kLengthBytes});
    if (length > bytes.size() - kLengthBytes || length == 0) continue;
    if (bytes[kLengthBytes] != '{') continue;
    const std::string header = bytes.substr(kLengthBytes, static_cast<std::size_t>(length));
    const std::uint64_t data = bytes.size() - kLengthBytes - length;
    const Error first = error_of(header, data);
    const Findings found = survey(header, data);
    const std::string name = file.path().filename().string();
    EXPECT_EQ(found.empty(), first.status == Status::ok) << name;
    if (first.status == Status::ok) continue;
    ++refused;
    EXPECT_TRUE(
        std::any_of(found.begin(), found.end(), [&](const Finding& f) { return f.fault.status == first.status; }))
        << name << ": " << first.message;
  }
  EXPECT_GT(refused, 50U);
}

}  // namespace
}  // namespace st::format
