// A header with other metadata: nothing else of it changes, and the data stays as aligned as it was.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "format/header.hpp"

namespace st::format {
namespace {

struct Case {
  const char* name;
  std::string_view before;
  std::string_view after;  // with the length's 8 bytes cut off
  std::uint64_t reserve = 0;
};

TEST(SpliceMetadata, changes_the_metadata_and_nothing_else) {
  const std::vector<MetadataPair> pairs{{"k", "v"}};
  const Case cases[] = {
      {"value of the same length", R"({"__metadata__":{"k":"w"},"t":{}})", R"({"__metadata__":{"k":"v"},"t":{}})"},
      {"shorter", R"({"__metadata__":{"k":"long"},"t":{}})", R"({"__metadata__":{"k":"v"}   ,"t":{}})"},
      {"room behind it", R"({"__metadata__":{}         ,"t":{}})", R"({"__metadata__":{"k":"v"}  ,"t":{}})"},
      {"not the first", R"({"t":{ "x" : [1, 2] }, "__metadata__" : {"k":"long"}, "u":{}})",
       R"({"t":{ "x" : [1, 2] },"__metadata__":{"k":"v"}      , "u":{}})"},
      {"the last", R"({"t":{},"__metadata__":{}       })", R"({"t":{},"__metadata__":{"k":"v"}})"},
      {"none, with room", "{                            \"t\":{}}", R"({"__metadata__":{"k":"v"},   "t":{}})"},
      {"none, alone, with room", "{                                }", R"({"__metadata__":{"k":"v"}        })"},
      {"none, alone, room behind", "{}                              ", R"({"__metadata__":{"k":"v"}      })"},
      {"room in front of it all", "           {\"__metadata__\":{},\"t\":{}}",
       R"({"__metadata__":{"k":"v"}    ,"t":{}})"},
      {"null", R"({"__metadata__":null         ,"t":{}})", R"({"__metadata__":{"k":"v"}    ,"t":{}})"},
      {"room at the end", R"({"__metadata__":{},"t":{}}        )", R"({"__metadata__":{"k":"v"} ,"t":{}})"},
      {"no room", R"({"__metadata__":{},"t":{}}      )", R"({"__metadata__":{"k":"v"},"t":{}}       )"},
      {"no room, reserve", R"({"__metadata__":{},"t":{}}      )", R"({"__metadata__":{"k":"v"}               ,"t":{}})",
       10},
      {"room behind the comma", R"({"__metadata__":{},          "t":{}})", R"({"__metadata__":{"k":"v"},   "t":{}})"},
      {"room on both sides of the comma", R"({"__metadata__":{}   ,    "t":{}})",
       R"({"__metadata__":{"k":"v"},"t":{}})"},
      {"room behind the comma, not the first", R"({"t":{},"__metadata__":{},       "u":{}})",
       R"({"t":{},"__metadata__":{"k":"v"},"u":{}})"},
      {"no room behind the comma", R"({"__metadata__":{},      "t":{}})", R"({"__metadata__":{"k":"v"},      "t":{}})"},
      {"room behind the comma of another", R"({"t":{},        "__metadata__":{"k":"wxyz"}})",
       R"({"t":{},"__metadata__":{"k":"v"}           })"},
      {"name with an escape", R"({"__met\u0061data__":{"k":"w"},"t":{}})", R"({"__metadata__":{"k":"v"}     ,"t":{}})"},
  };
  for (const Case& c : cases) {
    const std::string bytes = splice_metadata(Format::safetensors, c.before, {pairs, 8, c.reserve});
    std::string after(c.after);
    if (bytes.size() > 8 + c.before.size()) after.resize(bytes.size() - 8, ' ');
    EXPECT_EQ(bytes.substr(8), after) << c.name;
    EXPECT_EQ(static_cast<unsigned char>(bytes[0]), bytes.size() - 8) << c.name;
  }
}

TEST(SpliceMetadata, keeps_the_alignment_of_the_data) {
  const std::string value(5000, 'x');
  const std::vector<MetadataPair> pairs{{"k", value}};
  const std::string before = R"({"t":{}})" + std::string(4096 - 8 - 8, ' ');
  const std::string bytes = splice_metadata(Format::safetensors, before, {pairs, 4096, 0});
  EXPECT_EQ(bytes.size(), 8192U);
}

}  // namespace
}  // namespace st::format
