// One file on a server: its redirects, its version, and its ranges with their retries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client.hpp"
#include "url.hpp"

namespace st::http {

class RemoteFile {
 public:
  // Sends the first request. Throws a Failure: ST_ERR_NOT_FOUND if there is no such file.
  RemoteFile(std::shared_ptr<Client> client, Url url);
  RemoteFile(const RemoteFile&) = delete;
  RemoteFile& operator=(const RemoteFile&) = delete;

  const std::string& shown() const { return url_.shown; }
  const std::string& query() const { return url_.query; }  // may be a secret
  std::uint64_t size() const { return version_.size; }
  const Version& version() const { return version_; }

  // Reads n bytes, which are inside size(). Any thread may call this.
  void read(std::uint64_t offset, std::byte* dst, std::size_t n) const;

  // Passes n bytes, which are inside size(), to the sink in order, by few long requests. What the sink throws ends it.
  void stream(std::uint64_t offset, std::uint64_t n, const Sink& sink) const;

  // Frees the bytes of the first request, unless they are kept. No other thread may use the file.
  void forget_beginning();

 private:
  // The end of the redirects.
  struct Target {
    Url url;
    bool with_headers = true;  // the redirects have not left the origin
    bool checked = false;      // an answer from there has had the file's version
  };
  struct Resolved {
    std::shared_ptr<const Target> target;
    unsigned generation = 0;  // how often it was resolved
  };

  Resolved resolved() const;
  Reply exchange(Request request) const;
  std::optional<Reply> resolve_again(Request request, unsigned generation) const;
  void publish(Target target, unsigned generation) const;
  Reply follow(Request request, Target& target) const;
  Target redirected(const Target& from, const std::string& location) const;
  std::size_t fetch(Request request, Version& found) const;
  bool is_cancelled() const;
  void pause_after(unsigned tries, long retry_after) const;
  [[noreturn]] void fail(const Reply& reply, bool opening) const;
  [[noreturn]] void fail(st_status status, const std::string& problem) const;

  const std::shared_ptr<Client> client_;
  const Url url_;
  Version version_;
  std::vector<std::byte> beginning_;
  bool is_kept_ = false;  // beginning_ stays in memory

  mutable std::mutex mutex_;      // of resolved_
  mutable std::mutex resolving_;  // held by the only thread that resolves redirects
  mutable Resolved resolved_;
};

}  // namespace st::http
