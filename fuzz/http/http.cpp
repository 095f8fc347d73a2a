// Any bytes as the responses of a server, and as URLs, digests and redirects.
//
// The functions of libcurl that send a request are replaced by a server that reads the input, so no socket is opened.
// This server sends more than libcurl would pass on. The version of a file determines its bytes, so a read must return
// the bytes of the version that was opened, whatever the server sends later.
//
// The first byte of the input selects what is tested. Responses follow one another: each is a status line, header
// lines, an empty line, and two characters that say how much of the body arrives, and how the exchange ends.
// SPDX-License-Identifier: Apache-2.0
#include <curl/curl.h>
#include <strings.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../checkpoint.hpp"
#include "client.hpp"
#include "digest.hpp"
#include "remote_file.hpp"
#include "url.hpp"

namespace {

using fuzz::require;
using namespace st::http;

constexpr std::string_view kSecret = "sig=secret";
constexpr const char* kAuthorization = "Authorization: secret";
constexpr std::size_t kMostOfBody = std::size_t{256} << 10;
constexpr int kMostRequests = 60;

// ---- the server -----------------------------------------------------------------------------------------------------

struct Server {
  fuzz::Input in;
  std::string origin;  // which may have the caller's headers
  bool plain = false;
  int requests = 0;
};

Server* server = nullptr;

char byte_of(std::uint64_t position, std::uint64_t version) {
  return static_cast<char>((position + version) * 0x9E3779B97F4A7C15 >> 56);
}

// What identifies a version, as HTTP says.
std::uint64_t version_of(std::uint64_t size, std::string_view etag, std::string_view modified) {
  const bool strong = etag.size() > 2 && etag.front() == '"';
  std::uint64_t hash = size * 31;
  for (const char c : std::string(etag) + (strong ? "" : "|" + std::string(modified)))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

struct Exchange {
  std::string url;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  curl_write_callback header = nullptr;
  curl_write_callback body = nullptr;
  void* header_to = nullptr;
  void* body_to = nullptr;
  long status = 0;
  curl_off_t retry_after = 0;

  std::string_view line() {
    std::string& text = line_;
    for (text.clear(); server->in.left() > 0 && text.size() < 5000;) {
      const auto c = static_cast<char>(server->in.byte());
      if (c == '\n') break;
      if (c != '\r') text += c;
    }
    return text;
  }

  bool pass(std::string text) {
    text += "\r\n";
    return header(text.data(), 1, text.size(), header_to) == text.size();
  }

  CURLcode run() {
    if (++server->requests > kMostRequests || server->in.left() == 0) return CURLE_COULDNT_CONNECT;
    std::string text(line());
    if (text.find('\0') != text.npos || std::sscanf(text.c_str(), "HTTP/%*d.%*d %3ld", &status) != 1)
      return CURLE_WEIRD_SERVER_REPLY;
    if (!pass(text)) return CURLE_WRITE_ERROR;
    std::string etag;
    std::string modified;
    unsigned long long from = 0;
    unsigned long long to = 0;
    unsigned long long size = 0;
    unsigned long long length = 0;
    bool ranged = false;
    for (text = line(); !text.empty(); text = line()) {
      if (text.find('\0') != text.npos) return CURLE_WEIRD_SERVER_REPLY;
      if (!pass(text)) return CURLE_WRITE_ERROR;
      const std::size_t colon = text.find(':');
      if (colon == text.npos) continue;
      const std::string name = text.substr(0, colon);
      std::string value = text.substr(colon + 1);
      value.erase(0, std::min(value.find_first_not_of(" \t"), value.size()));
      value.erase(value.find_last_not_of(" \t") + 1);
      if (strcasecmp(name.c_str(), "etag") == 0) etag = value;
      if (strcasecmp(name.c_str(), "last-modified") == 0) modified = value;
      if (strcasecmp(name.c_str(), "content-length") == 0) length = std::strtoull(value.c_str(), nullptr, 10);
      if (strcasecmp(name.c_str(), "retry-after") == 0) retry_after = std::atol(value.c_str());
      if (strcasecmp(name.c_str(), "content-range") == 0)
        ranged = std::sscanf(value.c_str(), "%*[Bb]%*[Yy]%*[Tt]%*[Ee]%*[Ss] %llu-%llu/%llu", &from, &to, &size) == 3;
    }
    if (status != 206) from = 0, to = length - 1, size = length;
    std::uint64_t n = status == 206 && ranged ? to - from + 1 : length;
    const std::size_t amount = server->in.below(8);
    if (amount == 1) n /= 2;
    if (amount == 2) ++n;
    if (amount == 3) n = 0;
    if (amount == 4) n = std::min<std::uint64_t>(n, 7);
    if (amount == 5) n += 20'000;
    n = std::min<std::uint64_t>(n, kMostOfBody);
    const std::uint64_t version = version_of(size, etag, modified);
    for (std::uint64_t at = 0; at < n;) {
      char block[5000];
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(n - at, sizeof block));
      for (std::size_t i = 0; i < some; ++i) block[i] = byte_of(from + at + i, version);
      if (body(block, 1, some, body_to) != some) return CURLE_WRITE_ERROR;
      at += some;
    }
    constexpr CURLcode kEnds[] = {CURLE_OK,
                                  CURLE_OK,
                                  CURLE_OK,
                                  CURLE_OK,
                                  CURLE_RECV_ERROR,
                                  CURLE_PARTIAL_FILE,
                                  CURLE_OPERATION_TIMEDOUT,
                                  CURLE_COULDNT_RESOLVE_HOST};
    return kEnds[server->in.below(8)];
  }

 private:
  std::string line_;
};

void check_request(const Exchange& exchange, const curl_slist* lines) {
  bool authorized = false;
  for (; lines != nullptr; lines = lines->next) {
    require(std::strpbrk(lines->data, "\r\n") == nullptr, "a line of the request is one line");
    authorized = authorized || std::strcmp(lines->data, kAuthorization) == 0;
  }
  const Url url = parse_url(exchange.url, true);
  require(server->plain || url.scheme == "https", "only https is requested");
  require(!authorized || url.origin == server->origin, "another server does not get the caller's headers");
}

}  // namespace

// ---- instead of libcurl's -------------------------------------------------------------------------------------------

#ifdef __clang__
#pragma clang diagnostic ignored "-Wvarargs"  // these enumerations are as wide as int
#endif

extern "C" {

#undef curl_easy_setopt
#undef curl_easy_getinfo
CURL* curl_easy_init() { return new Exchange; }
void curl_easy_cleanup(CURL* curl) { delete static_cast<Exchange*>(curl); }
void curl_easy_reset(CURL* curl) { *static_cast<Exchange*>(curl) = Exchange(); }

CURLcode curl_easy_setopt(CURL* curl, CURLoption option, ...) {
  auto& exchange = *static_cast<Exchange*>(curl);
  va_list given;
  va_start(given, option);
  switch (option) {
    case CURLOPT_URL: exchange.url = va_arg(given, const char*); break;
    case CURLOPT_HEADERFUNCTION: exchange.header = va_arg(given, curl_write_callback); break;
    case CURLOPT_HEADERDATA: exchange.header_to = va_arg(given, void*); break;
    case CURLOPT_WRITEFUNCTION: exchange.body = va_arg(given, curl_write_callback); break;
    case CURLOPT_WRITEDATA: exchange.body_to = va_arg(given, void*); break;
    case CURLOPT_HTTPHEADER: check_request(exchange, va_arg(given, curl_slist*)); break;
    default: break;
  }
  va_end(given);
  return CURLE_OK;
}

CURLcode curl_easy_getinfo(CURL* curl, CURLINFO info, ...) {
  const auto& exchange = *static_cast<Exchange*>(curl);
  va_list given;
  va_start(given, info);
  if (info == CURLINFO_RESPONSE_CODE) *va_arg(given, long*) = exchange.status;
  if (info == CURLINFO_RETRY_AFTER) *va_arg(given, curl_off_t*) = exchange.retry_after;
  va_end(given);
  return CURLE_OK;
}

CURLcode curl_easy_perform(CURL* curl) { return static_cast<Exchange*>(curl)->run(); }

int nanosleep(const timespec*, timespec*) { return 0; }  // between two tries

}  // extern "C"

namespace {

// ---- the targets ----------------------------------------------------------------------------------------------------

void check_failure(const Failure& failure) {
  require(std::string_view(st_status_name(failure.status)).substr(0, 7) == "ST_ERR_", "the status is a known one");
  require(failure.status != ST_ERR_INTERNAL, "no input reaches a bug");
  require(!failure.message.empty() && failure.message.find(kSecret) == std::string::npos, "a message hides secrets");
}

void check_file(fuzz::Input in) {
  const std::uint8_t mode = in.byte();
  Server one{in, {}, mode % 2 != 0};
  server = &one;
  Settings settings;
  settings.plain = one.plain;
  settings.headers = {kAuthorization};
  settings.connections = 1;
  settings.redirects = 3;
  settings.tries = 1 + mode / 2 % 3;
  settings.first_bytes = mode % 32 < 16 ? 64 : 20'000;
  settings.keep_beginning = mode >= 128;
  const Url url = parse_url("https://models.example/a/b/model.safetensors?" + std::string(kSecret), one.plain);
  one.origin = url.origin;
  try {
    RemoteFile file(std::make_shared<Client>(settings), url);
    const std::uint64_t size = file.size();
    const std::uint64_t version = version_of(size, file.version().etag, file.version().last_modified);
    require(file.version().sha256.empty() || file.version().sha256.size() == 64, "a digest has 64 digits");
    const std::uint64_t places[] = {0, 60, 5000, size / 2, size - std::min<std::uint64_t>(size, 100)};
    for (const std::uint64_t offset : places) {
      if (offset >= size) continue;
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(size - offset, mode < 64 ? 100 : 40'000));
      std::vector<std::byte> bytes(n);
      file.read(offset, bytes.data(), n);
      std::uint64_t next = offset;
      const auto require_right = [&](const std::byte* data, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
          require(static_cast<char>(data[i]) == byte_of(next + i, version), "a byte is the one of this version");
        next += count;
      };
      require_right(bytes.data(), n);
      next = offset;
      file.stream(offset, n, [&](std::uint64_t at, const std::byte* data, std::size_t count) {
        require(at == next, "bytes arrive in order");
        require_right(data, count);
      });
      require(next == offset + n, "all bytes arrive");
      if (mode / 8 % 2 == 0) file.forget_beginning();
    }
  } catch (const Failure& failure) {
    check_failure(failure);
  }
}

void check_url(const Url& url, bool plain) {
  require(url.scheme == "https" || (plain && url.scheme == "http"), "only these schemes are accepted");
  require(url.origin.substr(0, url.scheme.size() + 3) == url.scheme + "://", "an origin has a scheme");
  require(!url.path.empty() && url.path[0] == '/', "a path begins with a slash");
  require(url.shown.find_first_of("?#") == std::string::npos, "queries are not shown");
  for (const char c : url.text) require(static_cast<unsigned char>(c) > 0x20 && c != 0x7F, "a URL is one word");
  const Url again = parse_url(url.text, plain);
  require(again.text == url.text && again.origin == url.origin && again.path == url.path, "a URL is parsed as itself");
}

void check_texts(fuzz::Input in) {
  const bool plain = in.flag();
  const std::string first(in.text(in.byte()));
  const std::string second(in.text(in.left()));
  const auto attempt = [](const auto& work) {
    try {
      work();
    } catch (const Failure& failure) {
      check_failure(failure);
    }
  };
  attempt([&] {
    const Url base = parse_url(first, plain);
    check_url(base, plain);
    attempt([&] { check_url(parse_redirect(base, second, plain), plain); });
    attempt([&] {
      const Url other = next_to(base, second, plain);
      check_url(other, plain);
      require(other.origin == base.origin && other.query == base.query, "a shard is on the server of its index");
    });
  });
  attempt([&] {
    if (!is_hub_url(first)) return;
    const HubFile hub = parse_hub_url(first);
    const Url directory = parse_url(hub.directory, false);
    require(directory.text == hub.directory && directory.origin == "https://huggingface.co:443",
            "a name does not lead out of the hub");
    const Url file = parse_url(hub.directory + encoded(hub.file), false);
    require(file.path.substr(0, directory.path.size()) == directory.path, "a file is in its repository");
  });
  const std::string digest = sha256_in(first, second);
  require(digest.empty() || (digest.size() == 64 && digest.find_first_not_of("0123456789abcdef") == digest.npos),
          "a digest has 64 digits");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input in(data, size);
  if (in.byte() == 'u') {
    check_texts(in);
  } else {
    check_file(in);
  }
  return 0;
}
