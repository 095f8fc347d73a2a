#include "io/win32/directory.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace st::io {
namespace {

std::string refusal(std::string_view name) {
  try {
    require_file_name(name);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.status, Status::shard);
    return error.message;
  }
}

TEST(ShardName, ThatCouldLeaveItsFolderOrBeSomethingElseThanAFileIsRefused) {
  constexpr std::string_view kBad[] = {
      "..\\x",    "a\\b",        "\\\\server\\share\\x",
      "C:x",      "C:\\x",       "a:b",
      "a::$DATA", "x\n",         "a*",
      "a?",       "a\"",         "a<b",
      "a>b",      "a|b",         "",
      "/x",       "x/",          "a//b",
      ".",        "..",          "a/../b",
      "a/./b",    "a.",          "a ",
      "a./b",     "CON",         "con",
      "Prn.txt",  "aux.a.b",     "NUL ",
      "nul .x",   "com1",        "LPT9.x",
      "a/com5/b", "CONIN$",      "conout$.txt",
      "CLOCK$",   "COM\xC2\xB9", "lpt\xC2\xB3.x",
  };
  for (const std::string_view name : kBad) {
    const std::string message = refusal(name);
    EXPECT_FALSE(message.empty()) << name;
    EXPECT_NE(message.find(in_quotes(name)), std::string::npos) << message;
  }
}

TEST(ShardName, OfAnUsualFileIsTaken) {
  for (const std::string_view name :
       {"model-00001-of-00002.safetensors", "sub/m.safetensors", ".hidden", "a b", "CONFIG", "com", "com0", "COM10",
        "nulls.x", "x.con", "\xD0\xBC", "aux1", "lpt"}) {
    EXPECT_EQ(refusal(name), "");
  }
}

}  // namespace
}  // namespace st::io
