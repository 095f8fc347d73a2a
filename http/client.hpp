// HTTP requests by libcurl: a pool of easy handles, each with its own connections, and one GET of a range.
//
// A request here is one exchange. It follows no redirect and is not repeated: remote_file.hpp does both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <curl/curl.h>
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "url.hpp"

namespace st::http {

struct Settings {
  bool plain = false;            // http:// is allowed
  bool private_allowed = false;  // addresses that are not public are allowed
  std::vector<std::string> headers;
  std::string ca_file;  // empty: the system's
  std::string proxy;    // empty: none
  unsigned connections = 16;
  unsigned redirects = 5;
  unsigned tries = 5;
  unsigned stall_ms = 30'000;
  std::size_t first_bytes = std::size_t{128} << 10;
  std::uint64_t gap_bytes = std::uint64_t{128} << 10;
  bool keep_beginning = false;  // a RemoteFile keeps all bytes of its first request if the client may keep them
  std::function<bool()>
      is_cancelled;  // asked at least once a second, by any thread; true ends all requests. May be empty
};

// What identifies one state of a file on a server.
struct Version {
  std::uint64_t size = 0;
  std::string etag;           // empty if the server sends none
  std::string last_modified;  // compared if there is no strong ETag
  std::string origin;         // of the server that sent them
  std::string path;           // on that server: where the redirects lead
  std::string sha256;         // of the whole file, in hexadecimal digits, if the server or a redirect states it

  // Weak ETags begin with "W/". They may stay the same when bytes change, and so may "".
  bool has_strong_etag() const { return etag.size() > 2 && etag.front() == '"'; }
  bool detects_changes() const { return has_strong_etag() || !last_modified.empty(); }
};

// Takes bytes of a range as they arrive, in order. What it throws ends the request, and leaves Client::get.
using Sink = std::function<void(std::uint64_t offset, const std::byte* data, std::size_t n)>;

struct Request {
  const Url* url = nullptr;
  bool with_headers = false;  // the caller's
  std::uint64_t first = 0;
  std::size_t bytes = 0;  // at least 1. If the version is not known, the file may be shorter.
  std::byte* dst = nullptr;
  const Version* version = nullptr;  // which the answer must have; nullptr: not known yet
  const Sink* sink = nullptr;        // gets the bytes instead of dst
  bool checked = false;              // an answer from `url` has had this version
  std::string_view sha256 = {};      // of the whole file, as the redirects to `url` state it
};

enum class Outcome : std::uint8_t {
  complete,     // all bytes of the range that the file has
  whole_file,   // 200 instead of a range, and the file fits. Only if the version is not known.
  no_ranges,    // 200 instead of a range
  partial,      // a complete response with fewer bytes than requested
  interrupted,  // reset, stalled or short: worth another try. `received` bytes are right.
  status,       // another status than 200 and 206
  changed,      // not the version of the request
  refused,      // an address that is not public
  failed,       // anything else; see `problem`
};

struct Reply {
  Outcome outcome = Outcome::failed;
  long status = 0;
  std::size_t received = 0;  // bytes of the range
  Version version;           // after complete, whole_file, partial, and interrupted with received != 0
  std::string location;      // of a redirect
  std::string sha256;        // of the whole file, if the response states it
  long retry_after = 0;      // seconds; 0: not stated
  std::string problem;       // for messages
};

// Returns whether a request that failed with this HTTP status is worth another try.
bool is_temporary(long status);

class Client {
 public:
  explicit Client(Settings settings);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  const Settings& settings() const { return settings_; }

  // Any thread may call this. Waits while as many requests as there are connections are in flight. Throws in a forked
  // process.
  Reply get(const Request& request);

  // A forked process has the parent's connections and locks. It must not use or destroy them.
  bool is_forked() const;
  void require_own_process() const;

  // Whether so many bytes of a file may be kept in memory. All files together may take 64 MiB.
  bool may_keep(std::size_t bytes);

 private:
  class Lease;

  const Settings settings_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<CURL*> idle_;  // the most recently used last: its connections are most likely still open
  unsigned busy_ = 0;
  std::atomic<std::size_t> kept_{0};
  const pid_t process_;
};

}  // namespace st::http
