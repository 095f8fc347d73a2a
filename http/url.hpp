// URLs: their parts, the URL of a shard, and their form in messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <safetensors/safetensors.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace st::http {

// What every function of this library throws.
struct Failure {
  st_status status;
  std::string message;
  int os_error = 0;
};

struct Url {
  std::string text;    // as it is requested
  std::string scheme;  // "http" or "https"
  std::string origin;  // scheme, host and port
  std::string path;    // percent-encoded, begins with a slash
  std::string query;   // with its question mark; empty if there is none
  std::string shown;   // for messages: without query and fragment
};

// Parses an absolute URL. Throws if it is invalid, contains a user name or a password, or has another scheme than https,
// or http if `plain`.
Url parse_url(const std::string& text, bool plain);

// Parses the target of a redirect, which may be relative to `base`.
Url parse_redirect(const Url& base, const std::string& location, bool plain);

// Returns the URL of a file whose name is relative to the directory of `base`, with the same query.
Url next_to(const Url& base, std::string_view name, bool plain);

// Returns the last component of the path.
std::string_view file_name(const Url& url);

// hf://OWNER/MODEL[@REVISION][/FILE]. A slash in REVISION is %2F.
struct HubFile {
  std::string directory;  // URL that ends with a slash
  std::string file;       // empty: not given
};

bool is_hub_url(std::string_view text);
HubFile parse_hub_url(std::string_view text);

// Percent-encodes everything but unreserved characters and slashes.
std::string encoded(std::string_view path);

}  // namespace st::http
