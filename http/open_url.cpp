// The C API: a store of libsafetensors whose files are on a web server.
// SPDX-License-Identifier: Apache-2.0
#include "open_url.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "url.hpp"

using namespace st::http;

namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kLeastFirstBytes = std::uint64_t{16} << 10;
constexpr std::uint64_t kMostFirstBytes = std::uint64_t{64} << 20;

// ---- errors ----------------------------------------------------------------------------------------------------------

st_status report(st_error* err, st_error full) noexcept {
  const st_status status = full.status;
  if (err == nullptr) return status;
  full.struct_size = err->struct_size;
  const std::size_t size = err->struct_size == 0 ? 256 : std::min<std::size_t>(err->struct_size, sizeof full);
  if (size < sizeof full && size > offsetof(st_error, message)) {
    reinterpret_cast<char*>(&full)[size - 1] = '\0';
  }
  std::memcpy(err, &full, size);
  return status;
}

st_status report(st_error* err, st_status status, const char* message, int os_error = 0) noexcept {
  st_error full{};
  full.status = status;
  full.os_error = os_error;
  full.offset = UINT64_MAX;
  std::snprintf(full.message, sizeof full.message, "%s", message);
  return report(err, full);
}

template <class Body>
st_status guard(st_error* err, const Body& body) noexcept {
  try {
    return body();
  } catch (const Failure& failure) {
    return report(err, failure.status, failure.message.c_str(), failure.os_error);
  } catch (const std::bad_alloc&) {
    return report(err, ST_ERR_NO_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return report(err, ST_ERR_INTERNAL, error.what());
  } catch (...) {
    return report(err, ST_ERR_INTERNAL, "an unknown exception");
  }
}

// ---- options ---------------------------------------------------------------------------------------------------------

st_http_options known_options(const st_http_options* given) {
  st_http_options options = ST_INIT(st_http_options);
  if (given == nullptr) return options;
  constexpr std::uint32_t kFirst = offsetof(st_http_options, gap_bytes) + sizeof(std::uint64_t);
  const std::uint32_t size = given->struct_size;
  if (size < kFirst || size > 1024 || size % alignof(st_http_options) != 0) {
    throw Failure{ST_ERR_STRUCT_SIZE, "st_http_options.struct_size is " + std::to_string(size) +
                                          ", which no version of the struct has: initialize it with ST_INIT"};
  }
  std::memcpy(&options, given, std::min<std::size_t>(size, sizeof options));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(bytes + std::min<std::size_t>(size, sizeof options), bytes + size, [](auto b) { return b != 0; })) {
    throw Failure{ST_ERR_STRUCT_SIZE, "st_http_options sets a field that this version of the library does not know"};
  }
  return options;
}

bool begins_with_name(std::string_view header, std::string_view name) {
  return header.size() > name.size() && header[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), header.begin(), [](char a, char b) { return a == (b | 32) || a == b; });
}

// Of the name of a header: RFC 9110, 5.6.2.
constexpr std::string_view kTokenCharacters =
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

std::string checked_header(const char* given) {
  if (given == nullptr) throw Failure{ST_ERR_ARGUMENT, "a header is NULL"};
  const std::string_view header = given;
  // The message must not contain the header, which may be a secret.
  const bool one_line = std::none_of(header.begin(), header.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
  });
  const std::size_t colon = header.find_first_not_of(kTokenCharacters);
  if (!one_line || colon == header.npos || colon == 0 || header[colon] != ':') {
    throw Failure{ST_ERR_ARGUMENT, "a header is not one line 'NAME: VALUE'"};
  }
  for (const char* const name : {"range", "if-match", "accept-encoding", "host"}) {
    if (begins_with_name(header, name)) {
      throw Failure{ST_ERR_ARGUMENT, std::string("the header ") + name + " is set by the library"};
    }
  }
  return std::string(header);
}

unsigned chosen(std::uint32_t given, unsigned usual, unsigned most) {
  return given == 0 ? usual : std::min(given, most);
}

}  // namespace

Settings st::http::settings_of(const st_http_options* given) {
  const st_http_options options = known_options(given);
  if ((options.flags & ~std::uint32_t{ST_HTTP_PLAIN | ST_HTTP_PRIVATE}) != 0) {
    throw Failure{ST_ERR_UNSUPPORTED, "st_http_options.flags has unknown bits"};
  }
  if (options.header_count != 0 && options.headers == nullptr) throw Failure{ST_ERR_ARGUMENT, "headers is NULL"};
  Settings settings;
  settings.plain = (options.flags & ST_HTTP_PLAIN) != 0;
  settings.private_allowed = (options.flags & ST_HTTP_PRIVATE) != 0;
  for (std::size_t i = 0; i < options.header_count; ++i) settings.headers.push_back(checked_header(options.headers[i]));
  if (options.ca_file != nullptr) settings.ca_file = options.ca_file;
  if (options.proxy != nullptr) settings.proxy = options.proxy;
  settings.connections = chosen(options.connections, settings.connections, 256);
  settings.redirects = chosen(options.redirects, settings.redirects, 100);
  settings.tries = chosen(options.tries, settings.tries, 100);
  settings.stall_ms = chosen(options.stall_ms, settings.stall_ms, 86'400'000);
  if (options.first_bytes != 0) {
    settings.first_bytes = static_cast<std::size_t>(std::clamp(options.first_bytes, kLeastFirstBytes, kMostFirstBytes));
  }
  if (options.gap_bytes != 0) settings.gap_bytes = options.gap_bytes;
  return settings;
}

namespace {

// ---- the store -------------------------------------------------------------------------------------------------------

// The files of a model on a server. The store of libsafetensors owns it.
struct Model {
  std::shared_ptr<Client> client;
  Url url;
  std::string name;  // of the file at `url`
  std::mutex mutex;
  std::unordered_set<RemoteFile*> files;   // the open ones
  std::vector<NamedFile>* kept = nullptr;  // gets the files that are opened; null once the model is open
  bool* is_missing = nullptr;              // set if there is no file at `url`

  const Settings& settings() const { return client->settings(); }
};

struct OpenFile {
  Model* model;
  std::shared_ptr<RemoteFile> file;

  OpenFile(Model* owner, Url url) : model(owner), file(std::make_shared<RemoteFile>(owner->client, std::move(url))) {}
};

st_status read_file(void* ctx, std::uint64_t offset, void* dst, std::size_t n, st_error* err) {
  return guard(err, [&] {
    static_cast<OpenFile*>(ctx)->file->read(offset, static_cast<std::byte*>(dst), n);
    return ST_OK;
  });
}

// A forked process leaks the file: its locks may be held for ever.
void close_file(void* ctx) {
  if (static_cast<OpenFile*>(ctx)->model->client->is_forked()) return;
  const std::unique_ptr<OpenFile> file(static_cast<OpenFile*>(ctx));
  const std::lock_guard lock(file->model->mutex);
  file->model->files.erase(file->file.get());
}

// An index with a name that fits into no URL is an error of the server, and not of the caller.
Url url_of_shard(const Model& model, std::string_view name) try {
  return next_to(model.url, name, model.settings().plain);
} catch (const Failure& failure) {
  throw Failure{ST_ERR_OPEN, failure.message};
}

st_status open_file(void* ctx, const char* name, st_source* source, st_error* err) {
  Model& model = *static_cast<Model*>(ctx);
  const bool is_first = name == model.name;
  const st_status status = guard(err, [&] {
    Url url = is_first ? model.url : url_of_shard(model, name);
    auto opened = std::make_unique<OpenFile>(&model, std::move(url));
    const std::lock_guard lock(model.mutex);
    if (model.kept != nullptr) model.kept->push_back({name, opened->file});
    model.files.insert(opened->file.get());
    source->ctx = opened.get();
    source->size = opened->file->size();
    source->close = close_file;
    source->read = read_file;
    source->parallel = model.settings().connections;
    source->chunk_bytes = kChunkBytes;
    source->gap_bytes = model.settings().gap_bytes;
    source->name = opened->file->shown().c_str();
    opened.release();
    return ST_OK;
  });
  if (status == ST_ERR_NOT_FOUND && is_first) *model.is_missing = true;
  return status;
}

void close_model(void* ctx) {
  if (!static_cast<Model*>(ctx)->client->is_forked()) delete static_cast<Model*>(ctx);
}

// Sets *is_missing if there is no file at the URL.
st_status open_model(const std::shared_ptr<Client>& client, const std::string& text, const st_open_options* options,
                     st_file** out, st_error* err, std::vector<NamedFile>* kept, bool* is_missing) {
  auto model = std::make_unique<Model>();
  model->client = client;
  model->url = parse_url(text, client->settings().plain);
  model->name = file_name(model->url);
  if (model->name.empty()) throw Failure{ST_ERR_ARGUMENT, "'" + model->url.shown + "' is not the URL of a file"};
  auto store = ST_INIT(st_store);
  store.ctx = model.get();
  store.open = open_file;
  store.parallel = client->settings().connections;
  const std::string name = model->name;
  Model* const opened = model.get();
  store.close = close_model;
  opened->is_missing = is_missing;
  opened->kept = kept;
  model.release();
  const st_status status = st_open_store(&store, name.c_str(), options, out, err);
  if (status != ST_OK) return status;
  const std::lock_guard lock(opened->mutex);
  opened->kept = nullptr;
  for (RemoteFile* const file : opened->files) file->forget_beginning();
  return ST_OK;
}

}  // namespace

st_status st::http::open_url(const std::string& url, Settings settings, const st_open_options* options, st_file** out,
                             st_error* err, std::vector<NamedFile>* files) {
  const auto client = std::make_shared<Client>(std::move(settings));
  bool is_missing = false;
  const auto open = [&](const std::string& text, st_error* error) {
    return open_model(client, text, options, out, error, files, &is_missing);
  };
  if (!is_hub_url(url)) return open(url, err);
  const auto [directory, file] = parse_hub_url(url);
  if (!file.empty()) return open(directory + encoded(file), err);
  auto error = ST_INIT(st_error);
  const st_status status = open(directory + "model.safetensors.index.json", &error);
  if (!is_missing) return status == ST_OK ? ST_OK : report(err, error);
  return open(directory + "model.safetensors", err);
}

st_status st_open_url(const char* url, const st_http_options* http, const st_open_options* options, st_file** out,
                      st_error* err) {
  return st_open_url_n(url, url == nullptr ? 0 : std::strlen(url), http, options, out, err);
}

st_status st_open_url_n(const char* url, size_t len, const st_http_options* http, const st_open_options* options,
                        st_file** out, st_error* err) {
  return guard(err, [&] {
    if (url == nullptr) throw Failure{ST_ERR_ARGUMENT, "url is NULL"};
    if (out == nullptr) throw Failure{ST_ERR_ARGUMENT, "out is NULL"};
    if (std::memchr(url, '\0', len) != nullptr) throw Failure{ST_ERR_ARGUMENT, "the URL contains a NUL"};
    return open_url(std::string(url, len), settings_of(http), options, out, err, nullptr);
  });
}
