// Models on web servers: URLs in place of paths.
//
// Without ST_BUILD_HTTP, every URL is rejected.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <safetensors/safetensors.hpp>

namespace cli {

// ---- URLs -----------------------------------------------------------------------------------------------------------

// Returns whether the text begins with https://, http:// or hf://, in letters of either case.
bool is_url(std::string_view text);

// The query of a URL may be a signature, so nothing that the command prints contains it. shown_url() removes query,
// fragment, user name and password, and keeps the whole URL for whole_url(). Returns a path as it is.
std::string shown_url(const std::string& given);
std::string whole_url(const std::string& shown);

// Decodes a part of a URL, unless the result would not be the name of a file.
std::string decoded_name(std::string_view part);

// Returns the last part of a path or a URL, without percent-encoding.
std::string last_part(const std::string& path);

// Decodes %41 and the like.
std::string percent_decoded(std::string_view text);

// ---- models ---------------------------------------------------------------------------------------------------------

// Opens a model to read it. `path` may be a URL, as shown_url() returns it. Throws a Failure or a safetensors::Error.
safetensors::SafeOpen open_model(const std::string& path, const st_open_options& options = ST_INIT(st_open_options));

// Opens one shard of an open model as a file of its own. Sends no request.
safetensors::SafeOpen open_shard(const safetensors::SafeOpen& file, std::size_t shard);

// Throws a Failure if the path is a URL. `what` begins the message, for example "set changes".
void require_local(const std::string& path, std::string_view what);

// ---- with ST_BUILD_HTTP ---------------------------------------------------------------------------------------------

safetensors::SafeOpen open_remote(const std::string& url, const st_open_options& options);

// Returns the https:// URL of the same file for an hf:// URL, or of its directory, with a slash, if it names no file.
std::string https_url(const std::string& url);

struct FetchOptions {
  std::string url;
  std::string folder;
  bool replace = false;
};

void fetch(const FetchOptions& options);

}  // namespace cli
