#include "io/win32/os.hpp"

#include <gtest/gtest.h>
#include <windows.h>

#include "base/error.hpp"
#include "io/directory.hpp"
#include "io/os.hpp"

namespace st::io {
namespace {

TEST(Path, IsAbsoluteAndWithoutALimit) {
  struct Case {
    std::string path;
    std::wstring expected;
  };
  const std::string name(100, 'n');
  const std::wstring wide_name(100, L'n');
  const std::string three = name + "/" + name + "\\" + name;
  const std::wstring wide_three = wide_name + L"\\" + wide_name + L"\\" + wide_name;
  const Case cases[] = {
      {"C:/a/b", L"C:\\a\\b"},
      {"C:\\a\\..\\b", L"C:\\b"},
      {"C:/" + three, L"\\\\?\\C:\\" + wide_three},
      {"//server/share/" + three, L"\\\\?\\UNC\\server\\share\\" + wide_three},
      {"//server/share/x", L"\\\\server\\share\\x"},
      {"\\\\?\\C:\\x.", L"\\\\?\\C:\\x."},
      {"nul", L"\\\\.\\nul"},
      {"C:/\xD0\xBC", L"C:\\\u043C"},
  };
  for (const Case& one : cases) EXPECT_EQ(native_path(one.path), one.expected) << one.path;
  EXPECT_THROW(native_path("a\xFF"), Error);
}

TEST(Path, IsSplitAtEitherSeparatorAndAfterADrive) {
  struct Case {
    const char* path;
    const char* directory;
    const char* name;
  };
  const Case cases[] = {{"x", ".", "x"},          {"a/x", "a", "x"},       {"a\\x", "a", "x"}, {"a/b\\x", "a/b", "x"},
                        {"/x", "/", "x"},         {"\\x", "\\", "x"},      {"C:x", "C:", "x"}, {"C:\\x", "C:\\", "x"},
                        {"C:/a\\x", "C:/a", "x"}, {"C:\\a\\", "C:\\a", ""}};
  for (const Case& one : cases) {
    EXPECT_EQ(split_path(one.path).directory, one.directory) << one.path;
    EXPECT_EQ(split_path(one.path).name, one.name) << one.path;
  }
}

TEST(Text, IsTheSameInBothForms) {
  for (const char* const text : {"", "a", "\xF0\x9F\xA4\x97 \xD0\xBC"}) {
    EXPECT_EQ(to_utf8(to_wide(text).value()).value(), text);
  }
  EXPECT_EQ(to_wide("\xF0\x9F\xA4\x97"), L"\U0001F917");
  for (const char* const bad : {"\xFF", "\xC0\xAF", "\xED\xA0\x80", "a\xE2\x82"}) EXPECT_FALSE(to_wide(bad)) << bad;
  EXPECT_FALSE(to_utf8(std::wstring(1, static_cast<wchar_t>(0xD800))));
}

TEST(OsError, IsToldInTheWordsOfTheSystem) {
  const std::string denied = os_error_text(ERROR_ACCESS_DENIED);
  EXPECT_FALSE(denied.empty());
  EXPECT_NE(denied, os_error_text(ERROR_SHARING_VIOLATION));
  EXPECT_EQ(denied.find_first_of("\r\n"), std::string::npos);
  EXPECT_NE(denied.back(), '.');
  EXPECT_EQ(os_error_text(0x2FFFFFFF), "error 805306367 of the system");
  EXPECT_TRUE(is_no_such_file(no_such_file()) && is_no_such_file(ERROR_PATH_NOT_FOUND));
  EXPECT_FALSE(is_no_such_file(ERROR_ACCESS_DENIED));
}

}  // namespace
}  // namespace st::io
