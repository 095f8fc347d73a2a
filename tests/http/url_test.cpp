// URLs and addresses, which the tests with a server on this machine cannot vary.
// SPDX-License-Identifier: Apache-2.0
#include "url.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "address.hpp"

namespace st::http {
namespace {

bool is_public(const std::string& text) {
  sockaddr_in6 v6{};
  sockaddr_in v4{};
  sockaddr_storage storage{};
  if (text.find(':') != text.npos) {
    v6.sin6_family = AF_INET6;
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
    std::memcpy(&storage, &v6, sizeof v6);
  } else {
    v4.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, text.c_str(), &v4.sin_addr), 1) << text;
    std::memcpy(&storage, &v4, sizeof v4);
  }
  const auto& address = reinterpret_cast<const sockaddr&>(storage);
  EXPECT_FALSE(text_of(address).empty());
  return http::is_public(address);
}

TEST(Address, OfEveryBlock) {
  for (const char* const text : {"0.0.0.0",
                                 "0.255.255.255",
                                 "10.0.0.1",
                                 "10.255.255.255",
                                 "100.64.0.1",
                                 "100.127.255.255",
                                 "127.0.0.1",
                                 "127.255.255.255",
                                 "169.254.169.254",
                                 "168.63.129.16",
                                 "172.16.0.1",
                                 "172.31.255.255",
                                 "192.0.0.1",
                                 "192.0.2.1",
                                 "192.88.99.1",
                                 "192.168.0.1",
                                 "192.168.255.255",
                                 "198.18.0.1",
                                 "198.19.255.255",
                                 "198.51.100.1",
                                 "203.0.113.1",
                                 "224.0.0.1",
                                 "239.255.255.255",
                                 "240.0.0.1",
                                 "255.255.255.255",
                                 "::",
                                 "::1",
                                 "::ffff:127.0.0.1",
                                 "::ffff:10.0.0.1",
                                 "::127.0.0.1",
                                 "64:ff9b::a00:1",
                                 "64:ff9b:1::1",
                                 "100::1",
                                 "fc00::1",
                                 "fd00:ec2::254",
                                 "fe80::1",
                                 "fec0::1",
                                 "ff02::1",
                                 "2001::1",
                                 "2001:db8::1",
                                 "2002:7f00:1::",
                                 "3fff::1",
                                 "4000::1"}) {
    EXPECT_FALSE(is_public(text)) << text;
  }
  for (const char* const text :
       {"1.1.1.1",         "9.255.255.255",   "11.0.0.0",         "100.63.255.255",  "100.128.0.0",
        "126.255.255.255", "128.0.0.0",       "169.253.255.255",  "169.255.0.0",     "172.15.255.255",
        "172.32.0.0",      "192.167.255.255", "192.169.0.0",      "198.17.255.255",  "198.20.0.0",
        "223.255.255.255", "::ffff:8.8.8.8",  "64:ff9b::808:808", "2606:4700::1111", "2001:4860:4860::8888",
        "2a00:1450::1"}) {
    EXPECT_TRUE(is_public(text)) << text;
  }
}

TEST(Address, OfAnotherFamily) {
  sockaddr address{};
  address.sa_family = AF_UNIX;
  EXPECT_FALSE(http::is_public(address));
}

st_status status_of(const std::string& text, bool plain = false) {
  try {
    parse_url(text, plain);
    return ST_OK;
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.message.find("secret"), std::string::npos) << failure.message;
    return failure.status;
  }
}

TEST(Url, HasPartsAndAFormForMessages) {
  const Url url = parse_url("https://Example.com/a/b%20c.safetensors?sig=secret#part", false);
  EXPECT_EQ(url.text, "https://Example.com/a/b%20c.safetensors?sig=secret");
  EXPECT_EQ(url.path, "/a/b%20c.safetensors");
  EXPECT_EQ(url.query, "?sig=secret");
  EXPECT_EQ(url.shown, "https://Example.com/a/b%20c.safetensors");
  EXPECT_EQ(file_name(url), "b%20c.safetensors");
}

TEST(Url, OriginsDifferBySchemeHostAndPort) {
  const auto origin = [](const char* text) { return parse_url(text, true).origin; };
  EXPECT_EQ(origin("https://a.com/x"), origin("https://A.com:443/y?z"));
  EXPECT_NE(origin("https://a.com/x"), origin("http://a.com/x"));
  EXPECT_NE(origin("https://a.com/x"), origin("https://a.com:444/x"));
  EXPECT_NE(origin("https://a.com/x"), origin("https://b.a.com/x"));
  EXPECT_NE(origin("https://a.com/x"), origin("https://a.com.b.com/x"));
}

TEST(Url, IsRefused) {
  EXPECT_EQ(status_of("http://a.com/?secret"), ST_ERR_UNSUPPORTED);
  EXPECT_EQ(status_of("http://a.com/", true), ST_OK);
  for (const char* const text : {"file:///etc/passwd", "ftp://a/b", "hf://a/b", "ldap://a/?secret"}) {
    EXPECT_EQ(status_of(text, true), ST_ERR_UNSUPPORTED) << text;
  }
  for (const char* const text : {"", "a", "/a", "//a/b", "https://", "https://u:secret@a/b", "https://secret@a/b",
                                 "https://a:99999/", "https://a\nb/", "https://[::1/"}) {
    EXPECT_EQ(status_of(text), ST_ERR_ARGUMENT) << text;
  }
  EXPECT_EQ(status_of(std::string("https://a/\0b", 12)), ST_ERR_ARGUMENT);
}

TEST(Url, OfARedirectMayBeRelative) {
  const Url base = parse_url("https://a.com/x/y?secret", false);
  EXPECT_EQ(parse_redirect(base, "/z?1", false).text, "https://a.com/z?1");
  EXPECT_EQ(parse_redirect(base, "z", false).text, "https://a.com/x/z");
  EXPECT_EQ(parse_redirect(base, "//b.com/z", false).text, "https://b.com/z");
  EXPECT_EQ(parse_redirect(base, "https://b.com:8/z", false).text, "https://b.com:8/z");
  EXPECT_THROW(parse_redirect(base, "http://a.com/z", false), Failure);
  EXPECT_THROW(parse_redirect(base, "file:///etc/passwd", true), Failure);
}

// Even a name that looks like a URL or a query stays below the directory.
TEST(Url, OfAShardIsNextToItsIndex) {
  const Url index = parse_url("https://a.com/m/x.index.json?sig=1", false);
  EXPECT_EQ(next_to(index, "b.safetensors", false).text, "https://a.com/m/b.safetensors?sig=1");
  EXPECT_EQ(next_to(index, "sub/b c.safetensors", false).text, "https://a.com/m/sub/b%20c.safetensors?sig=1");
  EXPECT_EQ(next_to(index, "https://b.com/x", false).origin, "https://a.com:443");
  EXPECT_EQ(next_to(index, "@b.com", false).text, "https://a.com/m/%40b.com?sig=1");
  EXPECT_EQ(next_to(index, "a?b#c%2e", false).text, "https://a.com/m/a%3Fb%23c%252e?sig=1");
}

TEST(Url, OfTheHub) {
  const auto of = [](const char* text) {
    const auto [directory, file] = parse_hub_url(text);
    return directory + "|" + file;
  };
  EXPECT_TRUE(is_hub_url("hf://a/b"));
  EXPECT_FALSE(is_hub_url("https://a/b"));
  EXPECT_EQ(of("hf://openai-community/gpt2"), "https://huggingface.co/openai-community/gpt2/resolve/main/|");
  EXPECT_EQ(of("hf://a/b/"), "https://huggingface.co/a/b/resolve/main/|");
  EXPECT_EQ(of("hf://a/b@v1.0/sub/m.safetensors"), "https://huggingface.co/a/b/resolve/v1.0/|sub/m.safetensors");
  EXPECT_EQ(of("hf://a/b@refs%2Fpr%2F1/m"), "https://huggingface.co/a/b/resolve/refs%2Fpr%2F1/|m");
  for (const char* const text :
       {"hf://", "hf://a", "hf:///b", "hf://a/", "hf://a/@x", "hf://a/b@", "hf://../b", "hf://a/../x", "hf://a/b@../x",
        "hf://a/b?secret", "hf://a?secret/b", "hf://a#secret/b", "hf://a/b/../../c/x", "hf://a/b/x//y",
        "hf://a/b@..%2F..%2Fc", "hf://user:secret@a/b", "hf://secret@a/b", "hf://a/user:secret@b", "hf://a b/c"}) {
    EXPECT_THROW(parse_hub_url(text), Failure) << text;
  }
}

}  // namespace
}  // namespace st::http
