// SPDX-License-Identifier: Apache-2.0
#include "remote_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace st::http {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostOfOneRequest = std::size_t{8} << 20;  // a reset then costs at most this
constexpr milliseconds kFirstPause(250);
constexpr milliseconds kLongestPause(8'000);
constexpr long kLongestRetryAfter = 60;  // seconds; a server that asks for more gets no further request

bool is_temporary(long status) {
  return status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);
}

bool is_denied(const Reply& reply) {
  return reply.outcome == Outcome::status && (reply.status == 401 || reply.status == 403);
}

bool is_worth_another_try(const Reply& reply) {
  if (reply.outcome == Outcome::interrupted) return true;
  return reply.outcome == Outcome::status && is_temporary(reply.status) && reply.retry_after <= kLongestRetryAfter;
}

// Doubles with each try. The last tenths differ from thread to thread, so that they do not return at the same moment.
void pause_after(unsigned tries, long retry_after) {
  const milliseconds usual = std::min(kFirstPause * (1 << std::min(tries - 1, 10U)), kLongestPause);
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const milliseconds more = usual * (now / 1000 % 256) / 512;
  std::this_thread::sleep_for(std::max<milliseconds>(usual + more, std::chrono::seconds(retry_after)));
}

}  // namespace

RemoteFile::RemoteFile(std::shared_ptr<Client> client, Url url)
    : client_(std::move(client)), url_(std::move(url)), beginning_(client_->settings().first_bytes) {
  resolved_.target = std::make_shared<const Target>(Target{url_, true});
  const std::size_t got = fetch(0, beginning_.data(), beginning_.size(), nullptr, version_);
  beginning_.resize(got);
  is_whole_ = got == version_.size;
  beginning_.shrink_to_fit();
}

void RemoteFile::forget_beginning() {
  if (!is_whole_) std::vector<std::byte>().swap(beginning_);
}

void RemoteFile::read(std::uint64_t offset, std::byte* dst, std::size_t n) const {
  if (offset < beginning_.size()) {
    const std::size_t known = std::min(n, beginning_.size() - static_cast<std::size_t>(offset));
    std::memcpy(dst, beginning_.data() + offset, known);
    offset += known;
    dst += known;
    n -= known;
  }
  Version found;
  while (n > 0) {
    const std::size_t part = std::min(n, kMostOfOneRequest);
    fetch(offset, dst, part, &version_, found);
    offset += part;
    dst += part;
    n -= part;
  }
}

// Reads n bytes with as many tries as the settings allow. Without a known version, the file may be shorter, and `found`
// is set. Returns the number of bytes.
std::size_t RemoteFile::fetch(std::uint64_t first, std::byte* dst, std::size_t n, const Version* known,
                              Version& found) const {
  const bool opening = known == nullptr;
  std::size_t got = 0;
  for (unsigned tries = 1;; ++tries) {
    const Reply reply = exchange({nullptr, false, first + got, n - got, dst + got, known});
    const bool complete = reply.outcome == Outcome::complete || reply.outcome == Outcome::whole_file;
    if (complete) {
      if (known == nullptr) found = reply.version;
      return got + reply.received;
    }
    // The bytes of an interrupted range count. An interrupted 200 is asked for from its beginning.
    if (reply.outcome == Outcome::interrupted && reply.status == 206 && reply.received != 0) {
      if (known == nullptr) {
        found = reply.version;
        known = &found;
        n = static_cast<std::size_t>(std::min<std::uint64_t>(n, found.size));
      }
      got += reply.received;
      if (got == n) return got;
    }
    if (!is_worth_another_try(reply) || tries == client_->settings().tries) fail(reply, opening);
    pause_after(tries, reply.outcome == Outcome::status ? reply.retry_after : 0);
  }
}

RemoteFile::Resolved RemoteFile::resolved() const {
  const std::lock_guard lock(mutex_);
  return resolved_;
}

// Sends one request to where the redirects lead. They are resolved by the first request, and again after 401 or 403: a
// signed URL may have expired.
Reply RemoteFile::exchange(Request request) const {
  const Resolved now = resolved();
  Target target = *now.target;
  if (now.generation != 0) {
    Reply reply = follow(request, target);
    if (!is_denied(reply) || target.url.text == url_.text) return reply;
    const std::lock_guard alone(resolving_);
    const Resolved newer = resolved();
    target = newer.generation != now.generation ? *newer.target : Target{url_, true};
    reply = follow(request, target);
    const std::lock_guard lock(mutex_);
    resolved_ = {std::make_shared<const Target>(std::move(target)), newer.generation + 1};
    return reply;
  }
  Reply reply = follow(request, target);
  if (reply.outcome == Outcome::status) return reply;
  const std::lock_guard lock(mutex_);
  resolved_ = {std::make_shared<const Target>(std::move(target)), now.generation + 1};
  return reply;
}

// Follows redirects from `target`, and sets it to where they lead.
Reply RemoteFile::follow(Request request, Target& target) const {
  for (unsigned redirects = 0;; ++redirects) {
    request.url = &target.url;
    request.with_headers = target.with_headers;
    Reply reply = client_->get(request);
    if (reply.outcome != Outcome::status || reply.location.empty()) return reply;
    if (redirects == client_->settings().redirects) {
      fail(ST_ERR_OPEN, "more than " + std::to_string(redirects) + " redirects in a row");
    }
    target = redirected(target, reply.location);
  }
}

RemoteFile::Target RemoteFile::redirected(const Target& from, const std::string& location) const try {
  Url url = parse_redirect(from.url, location, client_->settings().plain);
  const bool same = from.with_headers && url.origin == url_.origin;
  return {std::move(url), same};
} catch (const Failure& failure) {
  fail(failure.status == ST_ERR_ARGUMENT ? ST_ERR_OPEN : failure.status, "a redirect: " + failure.message);
}

void RemoteFile::fail(const Reply& reply, bool opening) const {
  switch (reply.outcome) {
    case Outcome::no_ranges: fail(ST_ERR_UNSUPPORTED, reply.problem);
    case Outcome::changed: {
      const std::string how = reply.outcome == Outcome::changed && reply.status == 206 ? ": " + reply.problem : "";
      fail(ST_ERR_READ, "the file has changed on the server" + how);
    }
    case Outcome::refused: fail(ST_ERR_OPEN, reply.problem);
    case Outcome::status:
      if (opening && (reply.status == 404 || reply.status == 410)) fail(ST_ERR_NOT_FOUND, reply.problem);
      if (reply.retry_after > kLongestRetryAfter && is_temporary(reply.status)) {
        fail(ST_ERR_READ, reply.problem + " and asks to wait for " + std::to_string(reply.retry_after) + " s");
      }
      fail(opening && !is_temporary(reply.status) ? ST_ERR_OPEN : ST_ERR_READ, reply.problem);
    case Outcome::interrupted: fail(ST_ERR_READ, reply.problem);
    default: fail(opening ? ST_ERR_OPEN : ST_ERR_READ, reply.problem);
  }
}

void RemoteFile::fail(st_status status, const std::string& problem) const {
  throw Failure{status, "'" + url_.shown + "': " + problem};
}

}  // namespace st::http
