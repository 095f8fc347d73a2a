// Notes about valid files that no writer would write.
// SPDX-License-Identifier: Apache-2.0
#include "format/lint.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "header_read.hpp"

namespace st::format::lint_test {
namespace {

std::vector<std::string> notes(const std::string& header, std::uint64_t data, const HeaderOptions& options = {}) {
  const auto read_header = read(header, data, options);
  Findings findings;
  lint(read_header->table, header, findings);
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    EXPECT_TRUE(finding.is_note);
    if (finding.tensor != nullptr) {  // the error is where its data begins
      const auto& table = read_header->table;
      const std::uint32_t number = table.index.find(table.tensors.data(), *finding.tensor);
      EXPECT_EQ(finding.fault.offset, table.data_begin + table.tensors.at(number).begin);
    }
    EXPECT_EQ(finding.tensor != nullptr, finding.fault.message.find("'b'") != std::string::npos);
    lines.push_back(finding.fault.message);
  }
  return lines;
}

std::string padded(std::string header) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

TEST(Lint, TheReferencesSpellingHasNone) {
  EXPECT_TRUE(
      notes(padded(R"({"__metadata__":{"z":"1","a":"\u0001"},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("a":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})"),
            6)
          .empty());
  // Empty tensors at one place: dtype before name.
  EXPECT_TRUE(notes(padded(R"({"z":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},)"
                           R"("a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                           R"("q":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})"),
                    1)
                  .empty());
  EXPECT_TRUE(notes(padded("{}"), 0).empty());
  EXPECT_TRUE(notes(std::string("\0\1\1a\1\1\1\0\1       ", 16), 1).empty());  // bintensors has no such notes
  HeaderOptions options;
  options.unknown_dtypes = true;
  EXPECT_TRUE(notes(padded(R"({"a":{"dtype":"X","shape":[1],"data_offsets":[0,1]}})"), 1, options).empty());
  EXPECT_TRUE(notes(padded("{}") + std::string(64, ' '), 0).empty());  // more alignment
}

TEST(Lint, AlignmentOrderAndSpelling) {
  EXPECT_EQ(notes("{}", 0), std::vector<std::string>{"the data begins at byte 10, which is not a multiple of 8"});
  EXPECT_EQ(
      notes(
          padded(
              R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})"),
          5),
      (std::vector<std::string>{
          "tensor 'b' begins at byte 121, which is not a multiple of its element size",
          "tensors are not in the order of the reference's writer: 'b' is the first out of place"}));
  EXPECT_EQ(
      notes(padded(R"({ "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})"), 1),
      std::vector<std::string>{"the header is formatted differently from the reference's writer, from byte 9 on"});
  EXPECT_EQ(notes(padded(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})"), 1).size(), 1U);
  const std::string behind_two =  // of 8 bytes, and so aligned
      R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},"b":{"dtype":"F64","shape":[1],"data_offsets":[6,14]}})";
  EXPECT_EQ(notes(padded(behind_two) + "  ", 14).size(), 2U);  // where the data begins, and the order
  EXPECT_EQ(
      notes("{}\n     ", 0),
      std::vector<std::string>{"the header is formatted differently from the reference's writer, from byte 10 on"});
}

}  // namespace
}  // namespace st::format::lint_test
