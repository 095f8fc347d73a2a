// SPDX-License-Identifier: Apache-2.0
#include "remote.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <tuple>

#include "failure.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

// ---- URLs

// The URLs of the command line by their shown form.
std::map<std::string, std::string>& known_urls() {
  static std::map<std::string, std::string> urls;
  return urls;
}

// Removes "user:password@". A password may contain a slash by mistake, and then no port follows the first colon.
std::string without_user(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t end = std::min(url.find_first_of("/?#", host), url.size());
  const std::size_t colon = url[host] == '[' ? url.npos : url.find(':', host);
  const bool has_port = colon >= end || url.find_first_not_of("0123456789", colon + 1) >= end;
  const std::size_t at = url.rfind('@', has_port ? end : url.npos);
  return at == url.npos || at < host ? url : url.substr(0, host) + url.substr(at + 1);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = static_cast<char>(c | 32);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

// ---- a shard as a file of its own

struct ShardSource {
  safetensors::SafeOpen file;
  std::size_t shard;
  std::array<char, 8> length;  // the field before the header
};

// The header is in memory, so opening reads nothing from the server.
void read_some(const ShardSource& source, std::uint64_t offset, char* to, std::size_t n) {
  constexpr std::size_t kLength = std::tuple_size_v<decltype(source.length)>;
  const std::string_view header = source.file.header(source.shard);
  const auto take = [&](std::string_view part, std::uint64_t begin) {
    if (n == 0 || offset < begin || offset - begin >= part.size()) return;
    const auto from = static_cast<std::size_t>(offset - begin);
    const std::size_t bytes = std::min(n, part.size() - from);
    std::memcpy(to, part.data() + from, bytes);
    to += bytes;
    offset += bytes;
    n -= bytes;
  };
  take({source.length.data(), kLength}, 0);
  take(header, kLength);
  if (n > 0) source.file.read_shard(source.shard, offset, to, n);
}

st_status read_shard_source(void* ctx, std::uint64_t offset, void* to, std::size_t n, st_error* error) {
  try {
    read_some(*static_cast<const ShardSource*>(ctx), offset, static_cast<char*>(to), n);
    return ST_OK;
  } catch (const safetensors::Error& failed) {
    error->os_error = failed.os_error();
    const std::size_t size = std::min(std::strlen(failed.what()), sizeof error->message - 1);
    std::memcpy(error->message, failed.what(), size);
    error->message[size] = '\0';
    return failed.status();
  }
}

}  // namespace

bool is_url(std::string_view text) {
  const std::string start = lower_case(std::string(text.substr(0, 8)));
  return start == "https://" || start.starts_with("http://") || start.starts_with("hf://");
}

std::string shown_url(const std::string& given) {
  if (!is_url(given)) return given;
  const std::string url = without_user(given);
  const std::string plain = url.substr(0, url.find_first_of("?#"));
  // Two URLs may differ in their queries only. A fragment tells them apart, and is never sent.
  std::string shown = plain;
  for (int number = 2;; ++number) {
    const auto [known, is_new] = known_urls().emplace(shown, given);
    if (is_new || known->second == given) return shown;
    shown = formatted("{}#{}", plain, number);
  }
}

std::string whole_url(const std::string& shown) {
  const auto known = known_urls().find(shown);
  return known == known_urls().end() ? shown : known->second;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high < 0 ? -1 : hex_digit(text[i + 2]);
    if (low < 0) {
      decoded += text[i];
    } else {
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return decoded;
}

std::string decoded_name(std::string_view part) {
  const std::string name = percent_decoded(part);
  const bool bad = name == "." || name == ".." || name.find_first_of(std::string_view("/\0", 2)) != name.npos;
  return bad ? std::string(part) : name;
}

std::string last_part(const std::string& path) {
  return is_url(path) ? decoded_name(std::string_view(path).substr(path.rfind('/') + 1)) : file_name(path);
}

safetensors::SafeOpen open_model(const std::string& path, const st_open_options& options) {
  return is_url(path) ? open_remote(path, options) : safetensors::SafeOpen(path, options);
}

safetensors::SafeOpen open_shard(const safetensors::SafeOpen& file, std::size_t shard) {
  const std::string path(file.shard_path(shard));
  if (!is_url(path)) return safetensors::SafeOpen(path);
  auto given = std::make_unique<ShardSource>(ShardSource{file, shard, {}});
  std::uint64_t size = file.header(shard).size();
  if (size == 0) throw std::bad_alloc();
  for (char& byte : given->length) {
    byte = static_cast<char>(size & 0xFF);
    size >>= 8;
  }
  st_source source = ST_INIT(st_source);
  source.size = file.shard_size(shard);
  source.read = read_shard_source;
  source.close = [](void* ctx) { delete static_cast<ShardSource*>(ctx); };
  source.name = path.c_str();
  source.ctx = given.release();
  return safetensors::SafeOpen::from_source(source);
}

void require_local(const std::string& path, std::string_view what) {
  if (is_url(path)) throw Failure{kUsage, formatted("{}: {} files, not URLs", path, what)};
}

#ifndef ST_HTTP  // otherwise in cli/remote
namespace {

[[noreturn]] void fail_without_http(const std::string& url) {
  throw Failure{kUsage, url + ": this command was built without HTTP: build it with -DST_BUILD_HTTP=ON"};
}

}  // namespace

safetensors::SafeOpen open_remote(const std::string& url, const st_open_options& /*options*/) {
  fail_without_http(url);
}

std::string https_url(const std::string& url) { return url; }

void fetch(const FetchOptions& options) { fail_without_http(options.url); }
#endif

}  // namespace cli
