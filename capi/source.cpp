// Opens files that the caller's functions read: one source, or a store of files by name.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guard.hpp"
#include "handles.hpp"
#include "io/directory.hpp"
#include "io/os.hpp"
#include "io/source.hpp"
#include "options.hpp"

using namespace st;
using namespace st::capi;

namespace {

bool is_known(st_status status) {
  switch (status) {
#define ST_STATUS(name, public_name, number) case number:
#include "base/statuses.def"
#undef ST_STATUS
    return true;
    default: return false;
  }
}

// The callback may have filled the whole array.
std::string message_of(const st_error& error) {
  const auto* const end = static_cast<const char*>(std::memchr(error.message, '\0', sizeof error.message));
  return one_line(
      {error.message, end == nullptr ? sizeof error.message : static_cast<std::size_t>(end - error.message)});
}

// The error that a callback has returned. `what` names the callback for messages.
Error callback_error(st_status status, const st_error& reported, std::string_view what) {
  if (!is_known(status)) return {Status::callback, 0, kNowhere, formatted("{} returned {}", what, status)};
  std::string message = message_of(reported);
  if (message.empty()) message = formatted("{} returned {}", what, st_status_name(status));
  return {static_cast<Status>(status), reported.os_error, kNowhere, std::move(message)};
}

using ReadFunction = decltype(st_source::read);

void read_or_throw(const io::Callbacks& callbacks, std::uint64_t offset, void* dst, std::size_t n) {
  auto error = ST_INIT(st_error);
  const auto read = reinterpret_cast<ReadFunction>(callbacks.function);
  const st_status status = read(callbacks.ctx, offset, dst, n, &error);
  if (status == ST_OK) return;
  Error thrown = callback_error(status, error, "the source's read");
  thrown.offset = offset;
  throw Error(std::move(thrown));
}

// Takes ownership of the caller's source. `name` is for messages, unless the source has a name of its own.
std::unique_ptr<io::Source> take_source(const st_source& source, const char* name,
                                        std::shared_ptr<const void> owner = nullptr) {
  const st_source given = known_members(&source, "st_source");
  io::Callbacks callbacks;
  callbacks.read_at = given.read_at;
  callbacks.close = given.close;
  callbacks.ctx = given.ctx;
  callbacks.serial = (given.flags & ST_SOURCE_SERIAL) != 0;
  if (given.read != nullptr) {
    callbacks.read = read_or_throw;
    callbacks.function = reinterpret_cast<void (*)()>(given.read);
  }
  callbacks.parallel = given.parallel;
  callbacks.chunk_bytes = given.chunk_bytes;
  callbacks.gap_bytes = given.gap_bytes;
  // Comes before all checks, because its destructor calls close.
  std::unique_ptr<io::Source> taken =
      io::callback_source(callbacks, given.size, given.name != nullptr ? given.name : name, std::move(owner));
  refuse_unknown_members(source, "st_source");
  refuse_unknown_flags(given.flags, ST_SOURCE_SERIAL, "st_source");
  if (given.reserved != 0) fail(Status::argument, "source.reserved is {}, not 0", given.reserved);
  if (given.read == nullptr) require(given.read_at, "source.read_at");
  return taken;
}

// The caller's store. Its destructor calls close, so it is made before the store's struct is checked.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() {
    if (given_.close != nullptr) given_.close(given_.ctx);
  }

  // A constructor with this argument would make std::make_shared name the struct, so copies of two versions of the
  // library in one program would share its code.
  void take(const st_store& given) { given_ = given; }

  unsigned parallel() const { return given_.parallel; }

  // Opens a file. The source keeps `self`, this store, until it is closed.
  std::unique_ptr<io::Source> open(const std::string& name, const std::shared_ptr<const Store>& self) const {
    // As long as any version of the struct: the caller's may be longer than the library's.
    alignas(st_source) unsigned char room[kMostStructBytes] = {};
    st_source* const source = new (room) st_source(ST_INIT(st_source));
    auto error = ST_INIT(st_error);
    const st_status status = given_.open(given_.ctx, name.c_str(), source, &error);
    if (status == ST_ERR_NOT_FOUND) {
      std::string message = message_of(error);
      if (message.empty()) message = formatted("{}: the store has no such file", in_quotes(name));
      throw Error{Status::open, io::no_such_file(), kNowhere, std::move(message)};
    }
    if (status != ST_OK) throw Error(callback_error(status, error, "the store's open"));
    return take_source(*source, name.c_str(), self);
  }

 private:
  st_store given_{};
};

std::shared_ptr<const Store> take_store(const st_store& given) {
  try {
    const auto store = std::make_shared<Store>();
    store->take(given);
    return store;
  } catch (const std::bad_alloc&) {
    if (given.close != nullptr) given.close(given.ctx);
    throw;
  }
}

// A shard's name must be a plain path, because a store need not know that "a//b" and "./a/b" are the same file.
void require_plain_path(std::string_view name) {
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part.empty() || part == ".") fail(Status::shard, "index: shard name {} has redundant parts", in_quotes(name));
    at = end + 1;
  }
}

// The directory of a name in a store.
class StoreDirectory final : public io::Directory {
 public:
  StoreDirectory(std::shared_ptr<const Store> store, std::string_view path) : store_(std::move(store)), path_(path) {}

  const std::string& path() const override { return path_; }
  std::vector<std::string> names() const override { return {}; }
  unsigned parallel() const override { return store_->parallel(); }
  std::unique_ptr<io::Source> open(const std::string& name, bool /*follow_links*/) const override {
    require_plain_path(name);
    return store_->open(path_ + name, store_);
  }

 private:
  const std::shared_ptr<const Store> store_;
  const std::string path_;  // ends with a slash, or is empty
};

// The name is checked after the store is taken, because the store must be closed even if the name is invalid.
void open_name(const st_store* store, const char* name, std::size_t len, const st_open_options* options,
               st_file** out) {
  require(store, "store");
  const st_store given = known_members(store, "st_store");
  std::shared_ptr<const Store> taken = take_store(given);
  refuse_unknown_members(*store, "st_store");
  refuse_unknown_flags(given.flags, 0, "st_store");
  if (given.reserved != 0) fail(Status::argument, "store.reserved is {}, not 0", given.reserved);
  require(given.open, "store.open");
  const std::string text = path_of(name, len, "name");
  require(out, "out");
  const std::size_t directory = text.rfind('/') + 1;  // 0 if there is no slash
  std::string last = text.substr(directory);
  if (last.empty() || last == "." || last == "..")
    fail(Status::argument, "name {} is not the name of a file", in_quotes(text));
  const core::OpenOptions chosen = open_options(options);
  *out = handle(core::Checkpoint::open(
      std::make_unique<StoreDirectory>(std::move(taken), std::string_view(text).substr(0, directory)), std::move(last),
      chosen));
}

}  // namespace

extern "C" {

st_status st_open_source(const st_source* source, const st_open_options* options, st_file** out, st_error* err) {
  return guard(err, [&] {
    require(source, "source");
    std::unique_ptr<io::Source> bytes = take_source(*source, nullptr);
    require(out, "out");
    *out = handle(core::Checkpoint::open(std::move(bytes), open_options(options)));
  });
}

st_status st_open_store(const st_store* store, const char* name, const st_open_options* options, st_file** out,
                        st_error* err) {
  return guard(err, [&] { open_name(store, name, name == nullptr ? 0 : std::strlen(name), options, out); });
}

st_status st_open_store_n(const st_store* store, const char* name, size_t len, const st_open_options* options,
                          st_file** out, st_error* err) {
  return guard(err, [&] { open_name(store, name, len, options, out); });
}

}  // extern "C"
