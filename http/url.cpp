// SPDX-License-Identifier: Apache-2.0
#include "url.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <new>

namespace st::http {

namespace {

using Parsed = std::unique_ptr<CURLU, void (*)(CURLU*)>;

Parsed new_url() {
  Parsed parsed(curl_url(), curl_url_cleanup);
  if (parsed == nullptr) throw std::bad_alloc();
  return parsed;
}

// Returns an empty string if the URL lacks this part.
std::string part(const Parsed& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  const CURLUcode code = curl_url_get(url.get(), which, &text, flags);
  if (code == CURLUE_OUT_OF_MEMORY) throw std::bad_alloc();
  if (code != CURLUE_OK) return {};
  const std::unique_ptr<char, void (*)(void*)> owner(text, curl_free);
  return text;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c | 32 : c); });
  return text;
}

void set(const Parsed& url, const std::string& text) {
  // Without this check, a string would end at a NUL.
  if (text.find('\0') != text.npos) throw Failure{ST_ERR_ARGUMENT, "the URL contains a NUL"};
  const CURLUcode code =
      curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME | CURLU_URLENCODE);
  if (code == CURLUE_OUT_OF_MEMORY) throw std::bad_alloc();
  if (code != CURLUE_OK) throw Failure{ST_ERR_ARGUMENT, "not a valid URL"};
}

Url split(const Parsed& parsed, bool plain) {
  Url url;
  url.scheme = lower_case(part(parsed, CURLUPART_SCHEME));
  if (url.scheme != "https" && !(plain && url.scheme == "http")) {
    const char* const allowed = plain ? "http and https are" : "only https is";
    const char* const hint = url.scheme == "http" ? " (ST_HTTP_PLAIN or SAFETENSORS_HTTP_ALLOW=plain allows it)" : "";
    throw Failure{ST_ERR_UNSUPPORTED,
                  "URLs with the scheme '" + url.scheme.substr(0, 20) + "' are not read: " + allowed + hint};
  }
  if (!part(parsed, CURLUPART_USER).empty() || !part(parsed, CURLUPART_PASSWORD).empty()) {
    throw Failure{ST_ERR_ARGUMENT, "the URL contains a user name or a password: use a header"};
  }
  curl_url_set(parsed.get(), CURLUPART_FRAGMENT, nullptr, 0);
  url.text = part(parsed, CURLUPART_URL);
  url.path = part(parsed, CURLUPART_PATH);
  const std::string host = lower_case(part(parsed, CURLUPART_HOST));
  if (host.empty()) throw Failure{ST_ERR_ARGUMENT, "the URL has no host"};
  url.origin = url.scheme + "://" + host + ":" + part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  const std::string query = part(parsed, CURLUPART_QUERY);
  if (!query.empty()) url.query = "?" + query;
  url.shown = url.text.substr(0, url.text.find('?'));
  return url;
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

Url parse_url(const std::string& text, bool plain) {
  const Parsed parsed = new_url();
  set(parsed, text);
  return split(parsed, plain);
}

Url parse_redirect(const Url& base, const std::string& location, bool plain) {
  const Parsed parsed = new_url();
  set(parsed, base.text);
  set(parsed, location);
  return split(parsed, plain);
}

Url next_to(const Url& base, std::string_view name, bool plain) {
  const std::string start = base.shown.substr(0, base.shown.size() - file_name(base).size());
  return parse_url(start + encoded(name) + base.query, plain);
}

std::string_view file_name(const Url& url) { return std::string_view(url.path).substr(url.path.rfind('/') + 1); }

namespace {

std::string encoded(std::string_view path, bool keep_slashes) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : path) {
    if (is_unreserved(c) || (keep_slashes && c == '/')) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return text;
}

}  // namespace

std::string encoded(std::string_view path) { return encoded(path, true); }

// ---- the hub ---------------------------------------------------------------------------------------------------------

constexpr std::string_view kHubScheme = "hf://";

namespace {

// Whether the path has no part that is empty, "." or "..".
bool is_plain_path(std::string_view path) {
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

// Allowed in the names of owners and models. Other characters, as in user:password@owner, are most likely a mistake.
constexpr std::string_view kHubCharacters = "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool is_hub_url(std::string_view text) {
  return lower_case(std::string(text.substr(0, kHubScheme.size()))) == kHubScheme;
}

HubFile parse_hub_url(std::string_view text) {
  const Failure bad{ST_ERR_ARGUMENT, "expected hf://OWNER/MODEL[@REVISION][/FILE]"};
  text.remove_prefix(kHubScheme.size());
  if (text.find_first_of("?#") != text.npos) throw Failure(bad);
  const std::size_t owner_end = text.find('/');
  if (owner_end == 0 || owner_end == text.npos) throw Failure(bad);
  const std::string_view owner = text.substr(0, owner_end);
  text.remove_prefix(owner_end + 1);
  const std::size_t model_end = std::min(text.find('/'), text.size());
  std::string_view model = text.substr(0, model_end);
  std::string_view revision = "main";
  if (const std::size_t at = model.find('@'); at != model.npos) {
    revision = model.substr(at + 1);
    model = model.substr(0, at);
  }
  const std::string_view file = text.substr(std::min(model_end + 1, text.size()));
  std::string branch(revision);  // "refs/pr/1" is given as "refs%2Fpr%2F1"
  for (std::size_t at; (at = branch.find("%2F")) != branch.npos;) branch.replace(at, 3, "/");
  // A part ".." would lead to another repository, with the caller's token.
  for (const std::string_view given : {owner, model, std::string_view(branch)}) {
    if (!is_plain_path(given)) throw Failure(bad);
  }
  for (const std::string_view given : {owner, model}) {
    if (given.find_first_not_of(kHubCharacters) != given.npos) throw Failure(bad);
  }
  if (!file.empty() && !is_plain_path(file)) throw Failure(bad);
  const std::string directory =
      "https://huggingface.co/" + encoded(owner) + "/" + encoded(model) + "/resolve/" + encoded(branch, false) + "/";
  return {directory, std::string(file)};
}

}  // namespace st::http
