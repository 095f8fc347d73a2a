// SPDX-License-Identifier: Apache-2.0
#include "address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace st::http {

namespace {

struct Block {
  std::uint32_t network;
  unsigned bits;
};

constexpr std::uint32_t v4(std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) {
  return a << 24 | b << 16 | c << 8;
}

// IANA's registry of special-purpose addresses.
constexpr Block kSpecial[] = {
    {v4(0), 8},
    {v4(10), 8},
    {v4(100, 64), 10},
    {v4(127), 8},
    {v4(168, 63, 129) | 16, 32},  // not IANA's: Azure's metadata service
    {v4(169, 254), 16},
    {v4(172, 16), 12},
    {v4(192, 0, 0), 24},
    {v4(192, 0, 2), 24},
    {v4(192, 88, 99), 24},
    {v4(192, 168), 16},
    {v4(198, 18), 15},
    {v4(198, 51, 100), 24},
    {v4(203, 0, 113), 24},
    {v4(224), 4},
    {v4(240), 4},
};

bool is_public_v4(std::uint32_t address) {
  for (const auto& [network, bits] : kSpecial) {
    if ((address ^ network) >> (32 - bits) == 0) return false;
  }
  return true;
}

using V6 = std::array<std::uint8_t, 16>;

bool begins_with(const V6& address, std::initializer_list<std::uint8_t> bytes) {
  return std::equal(bytes.begin(), bytes.end(), address.begin());
}

std::uint32_t last_four(const V6& address) {
  return std::uint32_t{address[12]} << 24 | std::uint32_t{address[13]} << 16 | std::uint32_t{address[14]} << 8 |
         address[15];
}

bool is_public_v6(const V6& address) {
  const bool mapped = begins_with(address, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF});
  const bool translated = begins_with(address, {0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0});  // NAT64
  if (mapped || translated) return is_public_v4(last_four(address));
  if ((address[0] & 0xE0) != 0x20) return false;                               // global unicast is 2000::/3
  if (begins_with(address, {0x20, 0x02})) return false;                        // 6to4
  if (begins_with(address, {0x20, 0x01}) && address[2] <= 0x01) return false;  // 2001::/23: Teredo and others
  if (begins_with(address, {0x20, 0x01, 0x0D, 0xB8})) return false;            // documentation
  return !(begins_with(address, {0x3F, 0xFF}) && (address[2] & 0xF0) == 0);    // documentation
}

}  // namespace

bool is_public(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &address, sizeof in);
    return is_public_v4(ntohl(in.sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 in;
  std::memcpy(&in, &address, sizeof in);
  V6 bytes;
  std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
  return is_public_v6(bytes);
}

std::string text_of(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &address, sizeof in);
    inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 in;
    std::memcpy(&in, &address, sizeof in);
    inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
  }
  return text;
}

}  // namespace st::http
