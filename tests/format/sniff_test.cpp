// Each kind of file is recognized by its complete signature, and by nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "format/sniff.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace st::format::sniff_test {
namespace {

using namespace std::string_literals;

// The kind that the message names; empty without a message.
std::string kind_of(std::string_view prefix) {
  try {
    refuse_other_kinds({prefix.data(), prefix.size()}, 5'000'000'000);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.status, Status::format);
    EXPECT_EQ(error.offset, 0U);
    return error.message;
  }
}

struct Kind {
  std::size_t at;         // where the signature begins
  std::string beginning;  // up to its last byte
  const char* says;
};

const std::vector<Kind> kKinds{
    {0, "version https://git-lfs", "git lfs pull"},
    {0, "PK\x03\x04", "a zip archive"},
    {0, "PK\x05\x06", "an empty zip archive"},
    {0, "GGUF", "GGUF"},
    {0, "lmgg", "GGML"},
    {0, "tjgg", "GGML"},
    {0, "\x93NUMPY", "numpy .npy"},
    {0, "\x89HDF\r\n\x1a\n", "HDF5"},
    {0, "\x1f\x8b", "gzip"},
    {0, "\x28\xb5\x2f\xfd", "zstd"},
    {0, "\xfd"s + "7zXZ", "xz-compressed"},
    {0, "BZh", "bzip2"},
    {4, "....TFL3", "TensorFlow Lite"},
    {0, "\x7f"s + "ELF", "ELF"},
    {0, "{", "JSON text"},
};

TEST(OtherKinds, AreKnownByEveryByteOfTheirSignature) {
  for (const Kind& kind : kKinds) {
    EXPECT_NE(kind_of(kind.beginning).find(kind.says), std::string::npos) << kind.says;
    EXPECT_NE(kind_of(kind.beginning + "...").find(kind.says), std::string::npos) << kind.says;
    EXPECT_EQ(kind_of("." + kind.beginning), "") << kind.says;
    for (std::size_t size = 0; size < kind.beginning.size(); ++size) {
      // The bytes continue after the prefix, but must not be read there.
      EXPECT_EQ(kind_of(std::string_view(kind.beginning).substr(0, size)), "") << kind.says << ' ' << size;
    }
    for (std::size_t at = kind.at; at < kind.beginning.size(); ++at) {
      std::string other = kind.beginning;
      other[at] = '.';
      EXPECT_EQ(kind_of(other), "") << kind.says << ' ' << at;
    }
  }
}

TEST(OtherKinds, APickleOfEachProtocolThatTorchWrites) {
  for (int protocol = 0; protocol < 256; ++protocol) {
    for (int opcode = 0; opcode < 256; ++opcode) {
      const std::string text{'\x80', static_cast<char>(protocol), static_cast<char>(opcode)};
      const bool known = "\x95}](c\x8aX"s.find(static_cast<char>(opcode)) != std::string::npos;
      EXPECT_EQ(kind_of(text).find("pickle") != std::string::npos, protocol >= 2 && protocol <= 5 && known)
          << protocol << ' ' << opcode;
      EXPECT_EQ(kind_of(std::string_view(text).substr(0, 2)), "");
    }
  }
  EXPECT_EQ(kind_of("\x81\2}"), "");
}

TEST(OtherKinds, APageOfHtmlOrXmlWhateverItsCase) {
  for (const std::string word : {"<!doctype", "<html", "<head", "<?xml"}) {
    std::string upper = word;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    for (const std::string space : {"", " ", "\t", "\r", "\n", " \t\r\n "}) {
      EXPECT_NE(kind_of(space + word).find("HTML"), std::string::npos) << word;
      EXPECT_NE(kind_of(space + upper).find("HTML"), std::string::npos) << word;
      const std::string whole = space + word;
      for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_EQ(kind_of(std::string_view(whole).substr(0, size)), "") << word << ' ' << size;
      }
    }
    for (std::size_t at = 0; at < word.size(); ++at) {
      for (const int step : {-1, 1, 32, -32}) {  // 32: from one case to the other, of letters only
        std::string other = word;
        other[at] = static_cast<char>(other[at] + step);
        const bool same = step == -32 && word[at] >= 'a' && word[at] <= 'z';
        EXPECT_EQ(kind_of(other).find("HTML") != std::string::npos, same) << other;
      }
    }
  }
  EXPECT_EQ(kind_of("x<html"), "");
}

TEST(OtherKinds, ALengthThatBeginsLikeJsonIsNoText) {
  EXPECT_EQ(kind_of("{\0\0\0\0\0\0\0{\"a\":"s), "");
  EXPECT_NE(kind_of("{\0\"\0a\0\"\0"s).find("JSON text"), std::string::npos);  // UTF-16
  EXPECT_NE(kind_of("{\"a\":\0\0\0\0"s).find("JSON text"), std::string::npos);
}

TEST(OtherKinds, MoreThanEightZerosAreAnUnfinishedDownload) {
  for (const std::size_t size : {0U, 1U, 7U, 8U}) EXPECT_EQ(kind_of(std::string(size, '\0')), "") << size;
  for (const std::size_t size : {9U, 64U}) {
    EXPECT_NE(kind_of(std::string(size, '\0')).find("download of 5.0 GB"), std::string::npos) << size;
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      std::string other(size, '\0');
      other[at] = '\1';
      EXPECT_EQ(kind_of(other), "") << size << ' ' << at;
    }
  }
}

}  // namespace
}  // namespace st::format::sniff_test
