// SPDX-License-Identifier: Apache-2.0
#include "remote/environment.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "failure.hpp"
#include "http/url.hpp"
#include "remote.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kHubOrigin = "https://huggingface.co:443";

// Returns nullptr for an empty variable, too.
const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

std::string without_line_end(std::string text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

// Returns "" for a URL that is invalid, which opening it reports.
std::string origin_of(const std::string& url) {
  if (st::http::is_hub_url(url)) return kHubOrigin;
  try {
    return st::http::parse_url(url, /*plain=*/true).origin;
  } catch (const st::http::Failure&) {
    return {};
  }
}

std::uint32_t allowed() {
  const char* const value = variable("SAFETENSORS_HTTP_ALLOW");
  std::string_view words = value == nullptr ? "" : value;
  std::uint32_t flags = 0;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find_first_of(", "), words.size());
    const std::string_view word = words.substr(0, end);
    if (word == "plain") {
      flags |= ST_HTTP_PLAIN;
    } else if (word == "private") {
      flags |= ST_HTTP_PRIVATE;
    } else if (!word.empty()) {
      throw Failure{kUsage, formatted("SAFETENSORS_HTTP_ALLOW: {} is neither plain nor private", shown(word, 40))};
    }
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return flags;
}

}  // namespace

HttpEnvironment::HttpEnvironment(const std::string& whole_url) {
  options_.flags = allowed();
  options_.ca_file = variable("SAFETENSORS_HTTP_CA_FILE");
  options_.proxy = variable("SAFETENSORS_HTTP_PROXY");
  add_headers(origin_of(whole_url));
  for (const std::string& header : headers_) lines_.push_back(header.c_str());
  options_.headers = lines_.data();
  options_.header_count = lines_.size();
}

// Each line is "ORIGIN NAME: VALUE", so a token never goes to a server that it was not meant for. Messages do not contain
// the line, which may be a secret.
void HttpEnvironment::add_headers(const std::string& origin) {
  const char* const value = variable("SAFETENSORS_HTTP_HEADER");
  std::string_view rest = value == nullptr ? "" : value;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string line = without_line_end(std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    const std::string of = space == line.npos ? "" : origin_of(line.substr(0, space));
    if (of.empty()) {
      throw Failure{kUsage, "SAFETENSORS_HTTP_HEADER: expected 'https://HOST NAME: VALUE'"};
    }
    if (of == origin) headers_.push_back(line.substr(space + 1));
  }
  const char* const token = variable("HF_TOKEN");
  if (token != nullptr && origin == kHubOrigin) headers_.push_back("Authorization: Bearer " + without_line_end(token));
}

// ---- opening

safetensors::SafeOpen open_remote(const std::string& url, const st_open_options& options) {
  const std::string whole = whole_url(url);
  const HttpEnvironment environment(whole);
  st_error error = ST_INIT(st_error);
  st_file* file = nullptr;
  const st_status status = st_open_url(whole.c_str(), &environment.options(), &options, &file, &error);
  if (status != ST_OK) throw safetensors::Error(status, error.message, error.offset, error.os_error);
  return safetensors::SafeOpen::from_c_handle(file, url);
}

std::string https_url(const std::string& url) {
  if (!st::http::is_hub_url(url)) return url;
  const st::http::HubFile hub = st::http::parse_hub_url(url);
  return hub.directory + st::http::encoded(hub.file);
}

}  // namespace cli
