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
constexpr std::size_t kMostOfOneStream = std::size_t{64} << 20;  // the sink keeps what has arrived
constexpr milliseconds kFirstPause(250);
constexpr milliseconds kLongestPause(8'000);
constexpr milliseconds kCancelWithin(100);
constexpr long kLongestRetryAfter = 60;  // seconds; a server that asks for more gets no further request

constexpr std::size_t kLeastKept = std::size_t{16} << 10;
constexpr std::size_t kWorthOneRequest = std::size_t{64} << 10;

// A signed URL that has expired: S3 answers with 400 or 403, other servers with 404 or 410.
bool may_have_expired(const Reply& reply) {
  const long status = reply.status;
  return reply.outcome == Outcome::status && status >= 400 && status < 500 && status != 408 && status != 412 &&
         status != 416 && status != 429;
}

bool is_complete(const Reply& reply) {
  return reply.outcome == Outcome::complete || reply.outcome == Outcome::whole_file;
}

// The length of the header stands in front of it, in safetensors and bintensors files.
std::uint64_t end_of_header(const std::vector<std::byte>& beginning) {
  if (beginning.size() < 8) return UINT64_MAX;
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(beginning[i]);
  return length > UINT64_MAX - 8 ? UINT64_MAX : length + 8;
}

bool is_worth_another_try(const Reply& reply) {
  if (reply.outcome == Outcome::interrupted || reply.outcome == Outcome::partial) return true;
  return reply.outcome == Outcome::status && is_temporary(reply.status) && reply.retry_after <= kLongestRetryAfter;
}

}  // namespace

RemoteFile::RemoteFile(std::shared_ptr<Client> client, Url url)
    : client_(std::move(client)), url_(std::move(url)), beginning_(client_->settings().first_bytes) {
  resolved_.target = std::make_shared<const Target>(Target{url_, true});
  const std::size_t got = fetch({nullptr, false, 0, beginning_.size(), beginning_.data()}, version_);
  const bool is_whole = got == version_.size;
  is_kept_ = (is_whole || client_->settings().keep_beginning) && client_->may_keep(got);
  if (!(is_whole && is_kept_) && !version_.detects_changes()) {
    fail(ST_ERR_UNSUPPORTED,
         "the server sends neither a strong ETag nor Last-Modified, so a change would go unnoticed");
  }
  beginning_.resize(got);
  // Only the header is read while the model is opened. The library may ask for more than a short header.
  const std::uint64_t needed = std::max<std::uint64_t>(kLeastKept, end_of_header(beginning_));
  if (!is_kept_) beginning_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(got, needed)));
  beginning_.shrink_to_fit();
}

void RemoteFile::forget_beginning() {
  if (!is_kept_) std::vector<std::byte>().swap(beginning_);
}

void RemoteFile::read(std::uint64_t offset, std::byte* dst, std::size_t n) const {
  if (offset < beginning_.size()) {
    const std::size_t known = std::min(n, beginning_.size() - static_cast<std::size_t>(offset));
    std::memcpy(dst, beginning_.data() + offset, known);
    offset += known;
    dst += known;
    n -= known;
  }
  if (n > 0) client_->require_own_process();  // before any lock
  Version found;
  while (n > 0) {
    const std::size_t part = std::min(n, kMostOfOneRequest);
    fetch({nullptr, false, offset, part, dst, &version_}, found);
    offset += part;
    dst += part;
    n -= part;
  }
}

void RemoteFile::stream(std::uint64_t offset, std::uint64_t n, const Sink& sink) const {
  if (n > 0 && offset < beginning_.size()) {
    const auto known = static_cast<std::size_t>(std::min<std::uint64_t>(n, beginning_.size() - offset));
    sink(offset, beginning_.data() + offset, known);
    offset += known;
    n -= known;
  }
  if (n > 0) client_->require_own_process();
  Version found;
  while (n > 0) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(n, kMostOfOneStream));
    fetch({nullptr, false, offset, part, nullptr, &version_, &sink}, found);
    offset += part;
    n -= part;
  }
}

bool RemoteFile::is_cancelled() const {
  const auto& asked = client_->settings().is_cancelled;
  return asked && asked();
}

// Doubles with each try. The last tenths differ from thread to thread, so that they do not return at the same moment.
void RemoteFile::pause_after(unsigned tries, long retry_after) const {
  using Clock = std::chrono::steady_clock;
  const milliseconds usual = std::min(kFirstPause * (1 << std::min(tries - 1, 10U)), kLongestPause);
  const Clock::time_point begun = Clock::now();
  const milliseconds more = usual * (begun.time_since_epoch().count() / 1000 % 256) / 512;
  const Clock::time_point end = begun + std::max<milliseconds>(usual + more, std::chrono::seconds(retry_after));
  if (!client_->settings().is_cancelled) return std::this_thread::sleep_until(end);
  while (Clock::now() < end && !is_cancelled()) std::this_thread::sleep_for(kCancelWithin);
}

// Gets the bytes of the request with as many tries as the settings allow. Without a known version, the file may be
// shorter, and `found` is set. Returns the number of bytes.
std::size_t RemoteFile::fetch(Request request, Version& found) const {
  const bool opening = request.version == nullptr;
  const std::uint64_t first = request.first;
  std::size_t n = request.bytes;
  std::size_t got = 0;
  for (unsigned tries = 1;; ++tries) {
    const Version* const known = request.version;
    const Reply reply = exchange(request);
    if (is_complete(reply)) {
      if (known == nullptr) found = reply.version;
      return got + reply.received;
    }
    if (is_cancelled()) fail(ST_ERR_CANCELLED, "cancelled");
    const bool partial = reply.outcome == Outcome::partial;
    // The bytes of an interrupted range count. An interrupted 200 is requested again from its beginning.
    if (partial || (reply.outcome == Outcome::interrupted && reply.status == 206 && reply.received != 0)) {
      if (known == nullptr) {
        found = reply.version;
        request.version = &found;
        n = static_cast<std::size_t>(std::min<std::uint64_t>(n, found.size));
      }
      got += reply.received;
      if (got == n) return got;
      request.first = first + got;
      request.bytes = n - got;
      if (request.dst != nullptr) request.dst += reply.received;
    }
    // Some servers limit the length of a range. Requests for few bytes each count as tries.
    if (partial && reply.received >= std::min(kWorthOneRequest, reply.received + n - got)) {
      tries = 0;
      continue;
    }
    if (!partial && reply.received >= kMostOfOneRequest) tries = 1;  // a long range may be interrupted more often
    if (!is_worth_another_try(reply) || tries >= client_->settings().tries) fail(reply, opening);
    pause_after(tries, reply.outcome == Outcome::status ? reply.retry_after : 0);
  }
}

RemoteFile::Resolved RemoteFile::resolved() const {
  const std::lock_guard lock(mutex_);
  return resolved_;
}

// Sends one request to the end of the redirects. The first request resolves them. A signed URL may expire; then they are
// resolved again.
Reply RemoteFile::exchange(Request request) const {
  const Resolved now = resolved();
  Target target = *now.target;
  const Reply reply = follow(request, target);
  if (now.generation == 0) {
    if (is_complete(reply) || reply.outcome == Outcome::partial) publish(std::move(target), 1);
    return reply;
  }
  if (!may_have_expired(reply) || target.url.text == url_.text) return reply;
  if (const auto failed = resolve_again(request, now.generation)) return *failed;
  target = *resolved().target;
  return follow(request, target);
}

// One thread requests a single byte, because the others wait for it. Returns the reply if the redirects lead to no file.
std::optional<Reply> RemoteFile::resolve_again(Request request, unsigned generation) const {
  const std::lock_guard alone(resolving_);
  if (resolved().generation != generation) return std::nullopt;  // another thread did it
  Target target{url_, true};
  std::byte one{};
  request.dst = &one;
  request.sink = nullptr;
  request.bytes = 1;
  Reply reply = follow(request, target);
  reply.received = 0;
  if (!is_complete(reply)) return reply;
  publish(std::move(target), generation + 1);
  return std::nullopt;
}

void RemoteFile::publish(Target target, unsigned generation) const {
  target.checked = true;
  const std::lock_guard lock(mutex_);
  resolved_ = {std::make_shared<const Target>(std::move(target)), generation};
}

// Follows redirects from `target`, and sets it to where they lead.
Reply RemoteFile::follow(Request request, Target& target) const {
  std::string sha256;  // the first one that is stated. A model hub states it in its redirect to the storage.
  for (unsigned redirects = 0;; ++redirects) {
    request.url = &target.url;
    request.with_headers = target.with_headers;
    request.checked = target.checked;
    request.sha256 = sha256;
    Reply reply = client_->get(request);
    if (sha256.empty()) sha256 = reply.sha256;
    if (reply.outcome != Outcome::status || reply.location.empty()) {
      reply.version.sha256 = std::move(sha256);
      return reply;
    }
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
    case Outcome::no_ranges: fail(opening ? ST_ERR_UNSUPPORTED : ST_ERR_READ, reply.problem);
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
  // st_error has room for 255 bytes, and the end of the message is the reason.
  constexpr std::size_t kShown = 120;
  const std::string& all = url_.shown;
  const std::string shown =
      all.size() <= kShown ? all : all.substr(0, kShown / 2) + "..." + all.substr(all.size() - kShown / 2);
  throw Failure{status, "'" + shown + "': " + problem};
}

}  // namespace st::http
