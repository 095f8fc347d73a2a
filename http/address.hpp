// Which network addresses are public.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

struct sockaddr;

namespace st::http {

// Returns false for loopback, private, link-local, shared, multicast, documentation and reserved addresses, for IPv6
// addresses that contain such an IPv4 address, and for every other family.
bool is_public(const sockaddr& address);

std::string text_of(const sockaddr& address);

}  // namespace st::http
