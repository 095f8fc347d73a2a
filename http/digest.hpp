// The SHA-256 digest of a file, as a server states it in a header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace st::http {

// Returns the digest of the whole file in lower-case hexadecimal digits, or "" if the header does not contain it. Knows
//   - Repr-Digest (RFC 9530) and its predecessor Digest (RFC 3230),
//   - X-Linked-ETag, which a model hub sends with the redirect to its storage.
// An ETag of 64 digits may be any other hash, so it does not count.
std::string sha256_in(std::string_view name, std::string_view value);

}  // namespace st::http
