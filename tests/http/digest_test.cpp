// The digest of a file in a server's headers.
// SPDX-License-Identifier: Apache-2.0
#include "digest.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using st::http::sha256_in;

// Of "hello\n".
const std::string kDigits = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
const std::string kBase64 = "WJG1tSLV3whtD/CxEPvZ0hu0/HFjrzTQgoai6Eb2vgM=";

TEST(HttpDigest, IsFoundInEachHeader) {
  EXPECT_EQ(sha256_in("Repr-Digest", "sha-256=:" + kBase64 + ":"), kDigits);
  EXPECT_EQ(sha256_in("repr-digest", "sha-512=:AAAA:,\tsha-256=:" + kBase64 + ":;x=1"), kDigits);
  EXPECT_EQ(sha256_in("Digest", "SHA-256=" + kBase64), kDigits);
  EXPECT_EQ(sha256_in("DIGEST", "md5=abc, sha-256=" + kBase64 + ",unixsum=1"), kDigits);
  EXPECT_EQ(sha256_in("X-Linked-ETag", "\"" + kDigits + "\""), kDigits);
  std::string upper = kDigits;
  for (char& c : upper) c = c >= 'a' ? static_cast<char>(c - 32) : c;
  EXPECT_EQ(sha256_in("x-linked-etag", "\"" + upper + "\""), kDigits);
}

TEST(HttpDigest, IsNothingElse) {
  EXPECT_EQ(sha256_in("ETag", "\"" + kDigits + "\""), "");                  // may be any other hash
  EXPECT_EQ(sha256_in("Content-Digest", "sha-256=:" + kBase64 + ":"), "");  // of the range
  EXPECT_EQ(sha256_in("X-Linked-ETag", kDigits), "");
  EXPECT_EQ(sha256_in("X-Linked-ETag", "\"" + kDigits.substr(0, 40) + "\""), "");
  EXPECT_EQ(sha256_in("X-Linked-ETag", "\"" + kDigits.substr(0, 63) + "g\""), "");
  EXPECT_EQ(sha256_in("X-Linked-ETag", ""), "");
  for (const std::string& bad :
       {std::string(), std::string("sha-256"), std::string("sha-256="), std::string("sha-256=:"),
        std::string("sha-256=::"), "sha-256=" + kBase64.substr(1), "sha-256=" + kBase64 + "=", "sha-256=:" + kBase64,
        "sha-512=" + kBase64, "sha-256=!" + kBase64.substr(1), "xsha-256=" + kBase64, std::string(",,, ,")}) {
    EXPECT_EQ(sha256_in("Digest", bad), "") << bad;
  }
}

}  // namespace
