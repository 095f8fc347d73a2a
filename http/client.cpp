// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "address.hpp"
#include "digest.hpp"

namespace st::http {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostHeaderBytes = std::size_t{64} << 10;
constexpr std::size_t kMostDroppedBytes = std::size_t{16} << 10;  // of the body of an error or a redirect
constexpr std::size_t kLeastBytesPerMs = 16;                      // slower requests have stalled
constexpr long kBufferBytes = 256L << 10;
constexpr std::size_t kMostKeptBytes = std::size_t{64} << 20;
constexpr std::size_t kLongestEtag = 1024;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

bool equal_names(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x | ((x >= 'A' && x <= 'Z') ? 32 : 0)) == y; });
}

// RFC 9110, 8.8.3. libcurl passes on control characters, which could end the line of If-Match.
bool is_strong_etag(std::string_view text) {
  if (text.size() < 3 || text.size() > kLongestEtag || text.front() != '"' || text.back() != '"') return false;
  const std::string_view inside = text.substr(1, text.size() - 2);
  return std::all_of(inside.begin(), inside.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != '"' && byte != 0x7F;
  });
}

std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view start) {
  if (text.substr(0, start.size()) != start) return false;
  text.remove_prefix(start.size());
  return true;
}

// The value of Content-Range: "bytes FIRST-LAST/SIZE", or "bytes */SIZE" without first and last.
struct ContentRange {
  std::optional<std::uint64_t> first;
  std::optional<std::uint64_t> last;
  std::uint64_t size = 0;
};

std::optional<ContentRange> parse_content_range(std::string_view text) {
  ContentRange range;
  constexpr std::string_view kUnit = "bytes ";
  if (!equal_names(text.substr(0, kUnit.size()), kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  if (!take(text, "*")) {
    range.first = take_number(text);
    if (!range.first || !take(text, "-")) return std::nullopt;
    range.last = take_number(text);
    if (!range.last) return std::nullopt;
  }
  if (!take(text, "/")) return std::nullopt;
  const auto size = take_number(text);
  if (!size || !text.empty()) return std::nullopt;
  range.size = *size;
  return range;
}

// The headers of one response.
struct Headers {
  std::optional<ContentRange> range;
  bool bad_range = false;
  std::optional<std::uint64_t> length;
  std::string etag;
  std::string last_modified;
  std::string location;
  std::string sha256;  // of the body
  std::string linked;  // of the file to which a redirect of a model hub leads
  bool is_encoded = false;
  bool waits_long = false;  // Retry-After is a number that libcurl takes for 0

  void add(std::string_view name, std::string_view value) {
    if (equal_names(name, "content-range")) {
      bad_range = bad_range || range.has_value();  // two of them
      range = parse_content_range(value);
      bad_range = bad_range || !range;
    } else if (equal_names(name, "content-length")) {
      length = take_number(value);
    } else if (equal_names(name, "etag")) {
      etag = value;
    } else if (equal_names(name, "last-modified")) {
      last_modified = value;
    } else if (equal_names(name, "location")) {
      location = value;
    } else if (equal_names(name, "retry-after")) {
      waits_long = value.size() > 9 && value.find_first_not_of("0123456789") == value.npos;
    } else if (equal_names(name, "content-encoding")) {
      is_encoded = is_encoded || (!value.empty() && !equal_names(value, "identity"));
    } else if (std::string& found = equal_names(name, "x-linked-etag") ? linked : sha256; found.empty()) {
      found = sha256_in(name, value);
    }
  }
};

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// One request while libcurl runs it. The functions below are called by libcurl, and must not throw.
class Exchange {
 public:
  Exchange(CURL* curl, const Request& request, const Settings& settings)
      : curl_(curl), request_(request), settings_(settings) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() {
    curl_easy_reset(curl_);  // or the handle would keep pointers to this object
    curl_slist_free_all(lines_);
  }

  Reply run() {
    set_up();
    began_ = last_byte_ = Clock::now();
    const CURLcode code = curl_easy_perform(curl_);
    if (thrown_) std::rethrow_exception(thrown_);
    if (out_of_memory_) throw std::bad_alloc();
    judge(code);
    reply_.sha256 = headers_.linked.empty() && !is_redirect(reply_.status) ? headers_.sha256 : headers_.linked;
    return std::move(reply_);
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(curl_, option, value);
    if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
    if (code != CURLE_OK) throw Failure{ST_ERR_INTERNAL, std::string("libcurl: ") + curl_easy_strerror(code)};
  }

  void add_line(const std::string& line) {
    curl_slist* const longer = curl_slist_append(lines_, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    lines_ = longer;
  }

  void set_up() {
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_URL, request_.url->text.c_str());
    set(CURLOPT_PROTOCOLS_STR, settings_.plain ? "http,https" : "https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_HTTPGET, 1L);
    set(CURLOPT_MAXCONNECTS, 2L);
    set(CURLOPT_BUFFERSIZE, kBufferBytes);
    // The empty strings keep libcurl from reading http_proxy and no_proxy.
    set(CURLOPT_PROXY, settings_.proxy.c_str());
    set(CURLOPT_NOPROXY, "");
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    if (!settings_.ca_file.empty()) {
      set(CURLOPT_CAINFO, settings_.ca_file.c_str());
      set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));  // the system's
      set(CURLOPT_PROXY_CAINFO, settings_.ca_file.c_str());
      set(CURLOPT_PROXY_CAPATH, static_cast<const char*>(nullptr));
    }
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(settings_.stall_ms));
    set(CURLOPT_ERRORBUFFER, problem_);
    set(CURLOPT_USERAGENT, "libsafetensors-http");

    const std::string range =
        std::to_string(request_.first) + "-" + std::to_string(request_.first + (request_.bytes - 1));
    set(CURLOPT_RANGE, range.c_str());
    add_line("Accept-Encoding: identity");
    // If-Match needs a strong ETag: a weak one never matches. Another origin must not choose what this one gets.
    const Version* const version = request_.version;
    if (version != nullptr && version->origin == request_.url->origin && is_strong_etag(version->etag)) {
      add_line("If-Match: " + version->etag);
    }
    if (request_.with_headers) {
      for (const std::string& header : settings_.headers) add_line(header);
    }
    set(CURLOPT_HTTPHEADER, lines_);

    set(CURLOPT_HEADERFUNCTION, on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, on_progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_OPENSOCKETFUNCTION, on_socket);
    set(CURLOPT_OPENSOCKETDATA, this);
  }

  // ---- called by libcurl ------------------------------------------------------------------------------------------------

  static std::size_t on_header(char* data, std::size_t one, std::size_t n, void* self) {
    return static_cast<Exchange*>(self)->guarded([&](Exchange& exchange) {
      return exchange.header({data, one * n}) ? one * n : 0;
    });
  }

  static std::size_t on_body(char* data, std::size_t one, std::size_t n, void* self) {
    return static_cast<Exchange*>(self)->guarded(
        [&](Exchange& exchange) { return exchange.body(data, one * n) ? one * n : 0; });
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Exchange*>(self)->must_end() ? 1 : 0;
  }

  static curl_socket_t on_socket(void* self, curlsocktype, curl_sockaddr* address) {
    return static_cast<Exchange*>(self)->open_socket(*address);
  }

  // Returns 0, which ends the request, if the function throws.
  template <class Function>
  std::size_t guarded(const Function& function) {
    try {
      return function(*this);
    } catch (...) {
      thrown_ = std::current_exception();
      return 0;
    }
  }

  bool header(std::string_view line) {
    header_bytes_ += line.size();
    if (header_bytes_ > kMostHeaderBytes) return give_up(Outcome::failed, "the header of the response is too long");
    if (line.substr(0, 5) == "HTTP/") {
      headers_ = {};
      return true;
    }
    const std::size_t colon = line.find(':');
    if (colon != line.npos) headers_.add(line.substr(0, colon), trimmed(line.substr(colon + 1)));
    return true;
  }

  // Decides at the first byte of the body what to do with it.
  bool body(const char* data, std::size_t n) {
    if (n == 0) return true;
    last_byte_ = Clock::now();
    if (!decided_ && !decide()) return false;
    if (!wanted_) {
      dropped_ += n;
      return dropped_ <= kMostDroppedBytes;
    }
    if (n > expected_ - reply_.received) {
      return give_up(Outcome::failed, "the server sends more bytes than the range has");
    }
    if (request_.sink != nullptr) {
      (*request_.sink)(request_.first + reply_.received, reinterpret_cast<const std::byte*>(data), n);
    } else {
      std::memcpy(request_.dst + reply_.received, data, n);
    }
    reply_.received += n;
    return true;
  }

  // Returns false if the request is to be ended.
  bool decide() {
    decided_ = true;
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    if (status == 206) return decide_range();
    if (status == 200) return decide_whole();
    return true;
  }

  bool decide_range() {
    const auto& range = headers_.range;
    if (headers_.is_encoded) return give_up(Outcome::failed, "the server sends a range of compressed bytes");
    if (headers_.bad_range || !range || !range->first) {
      return give_up(Outcome::failed, "the server sends a range without its position or the size of the file");
    }
    if (!is_version()) return false;
    const std::uint64_t first = request_.first;
    const bool known = request_.version != nullptr;
    if (*range->first != first || range->size <= first || *range->last >= range->size ||
        (known && request_.bytes > range->size - first)) {
      return give_up(Outcome::failed, "the server sends another range");
    }
    const std::uint64_t wanted = std::min<std::uint64_t>(request_.bytes, range->size - first);
    // A server may send less than it was asked for: then the rest is asked for again.
    if (*range->last < first || *range->last - first >= wanted) {
      return give_up(Outcome::failed, "the server sends another range");
    }
    expected_ = static_cast<std::size_t>(*range->last - first + 1);
    if (headers_.length && *headers_.length != expected_) {
      return give_up(Outcome::failed, "the length of the response is not that of its range");
    }
    whole_range_ = expected_ == wanted;
    wanted_ = true;
    set_version(range->size);
    return true;
  }

  void set_version(std::uint64_t size) {
    reply_.version = {size, headers_.etag, headers_.last_modified, request_.url->origin, request_.url->path, {}};
  }

  bool is_version() {
    const Version* const known = request_.version;
    if (known == nullptr) return true;
    if (headers_.range->size != known->size) return give_up(Outcome::changed, "its length has changed");
    if (headers_.etag != known->etag) return give_up(Outcome::changed, "its ETag has changed");
    if (!known->has_strong_etag() && headers_.last_modified != known->last_modified) {
      return give_up(Outcome::changed, "its time of modification has changed");
    }
    if (leads_elsewhere(*known)) return give_up(Outcome::changed, "its URL leads to another file");
    return true;
  }

  // Many servers make ETags of the time and the size, some by a hash of these two. So different files may have the same
  // ETag, and only a stated digest shows that two paths lead to one file.
  bool leads_elsewhere(const Version& known) const {
    const Url& url = *request_.url;
    if (request_.checked || (known.origin == url.origin && known.path == url.path)) return false;
    const std::string& own = headers_.linked.empty() ? headers_.sha256 : headers_.linked;
    const std::string_view stated = request_.sha256.empty() ? std::string_view(own) : request_.sha256;
    return known.sha256.empty() || known.sha256 != stated;
  }

  // The server has ignored the range. The first request still takes the whole file if it fits.
  bool decide_whole() {
    if (request_.version == nullptr && request_.first == 0 && headers_.length && !headers_.is_encoded &&
        *headers_.length <= request_.bytes) {
      expected_ = static_cast<std::size_t>(*headers_.length);
      whole_range_ = true;
      whole_file_ = true;
      wanted_ = true;
      set_version(*headers_.length);
      return true;
    }
    return give_up(Outcome::no_ranges, "the server does not send ranges");
  }

  bool give_up(Outcome outcome, const char* problem) {
    given_up_ = true;
    reply_.outcome = outcome;
    reply_.problem = problem;
    return false;
  }

  // Called about once a second, and more often while bytes arrive.
  bool must_end() { return has_stalled() || (settings_.is_cancelled && settings_.is_cancelled()); }

  bool has_stalled() {
    const Clock::time_point now = Clock::now();
    const std::chrono::milliseconds limit(settings_.stall_ms);
    const std::chrono::milliseconds whole(settings_.stall_ms + request_.bytes / kLeastBytesPerMs);
    if (now - last_byte_ <= limit && now - began_ <= whole) return false;
    stalled_ = true;
    return true;
  }

  curl_socket_t open_socket(const curl_sockaddr& address) {
    if (!settings_.private_allowed && settings_.proxy.empty() && !is_public(address.addr)) {
      try {
        refused_ = text_of(address.addr);
      } catch (const std::exception&) {
        out_of_memory_ = true;
      }
      return CURL_SOCKET_BAD;
    }
#ifdef SOCK_CLOEXEC
    return socket(address.family, address.socktype | SOCK_CLOEXEC, address.protocol);
#else
    const curl_socket_t made = socket(address.family, address.socktype, address.protocol);
    if (made != CURL_SOCKET_BAD) fcntl(made, F_SETFD, FD_CLOEXEC);
    return made;
#endif
  }

  // ---- afterwards -------------------------------------------------------------------------------------------------------

  void judge(CURLcode code) {
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &reply_.status);
    curl_off_t wait = 0;
    curl_easy_getinfo(curl_, CURLINFO_RETRY_AFTER, &wait);
    constexpr curl_off_t kLongest = 1'000'000;
    reply_.retry_after = static_cast<long>(headers_.waits_long ? kLongest : std::min(wait, kLongest));
    if (given_up_) return;
    if (code == CURLE_OK && !decided_ && !decide()) return;  // without a body
    if (given_up_) return;
    if (wanted_) {
      const bool whole = reply_.received == expected_;
      reply_.outcome = !whole         ? Outcome::interrupted
                       : whole_file_  ? Outcome::whole_file
                       : whole_range_ ? Outcome::complete
                                      : Outcome::partial;
      reply_.problem = stalled_ ? "the connection has stalled" : "the response ended early";
      return;
    }
    // A body that is too long to be dropped ends the request, and so does a stall in it. The status is there.
    const bool answered = decided_ && (code == CURLE_OK || dropped_ > kMostDroppedBytes);
    if (answered) return judge_status();
    if (code == CURLE_COULDNT_CONNECT && !refused_.empty()) {
      reply_.outcome = Outcome::refused;
      reply_.problem =
          "the address " + refused_ + " is not public (ST_HTTP_PRIVATE or SAFETENSORS_HTTP_ALLOW=private allows it)";
      return;
    }
    // libcurl reports a proxy that refuses to connect as CURLE_RECV_ERROR, like a reset.
    long connect_status = 0;
    curl_easy_getinfo(curl_, CURLINFO_HTTP_CONNECTCODE, &connect_status);
    const bool refused_by_proxy = connect_status >= 400 && !is_temporary(connect_status);
    reply_.outcome = !refused_by_proxy && is_worth_another_try(code) ? Outcome::interrupted : Outcome::failed;
    reply_.problem = stalled_ ? "the connection has stalled" : text_of_code(code);
  }

  void judge_status() {
    reply_.outcome = Outcome::status;
    reply_.problem = "the server answers with status " + std::to_string(reply_.status);
    if (reply_.status == 416 && request_.version == nullptr && headers_.range && headers_.range->size == 0) {
      reply_.outcome = Outcome::complete;  // an empty file has no range
      set_version(0);
    }
    if (reply_.status == 412 || (reply_.status == 416 && request_.version != nullptr)) {
      reply_.outcome = Outcome::changed;
    }
    if (is_redirect(reply_.status)) reply_.location = headers_.location;
  }

  bool is_worth_another_try(CURLcode code) const {
    switch (code) {
      case CURLE_OPERATION_TIMEDOUT:
      case CURLE_SSL_CONNECT_ERROR:
      case CURLE_GOT_NOTHING:
      case CURLE_SEND_ERROR:
      case CURLE_RECV_ERROR:
      case CURLE_PARTIAL_FILE:
      case CURLE_ABORTED_BY_CALLBACK: return true;
      // A server that restarts. Before the first response, it may as well be a wrong URL.
      case CURLE_COULDNT_CONNECT:
      case CURLE_COULDNT_RESOLVE_HOST: return request_.version != nullptr;
      default: return false;
    }
  }

  // libcurl's own text is more precise, but must not contain the URL's query or the password of a proxy.
  std::string text_of_code(CURLcode code) const {
    // libcurl also says so of a line of more than 100 KiB.
    if (code == CURLE_OUT_OF_MEMORY) return "out of memory, or a line of the response is too long";
    const std::string_view text = problem_;
    const bool usable = !text.empty() && text.find_first_of("?@") == text.npos && text.find("://") == text.npos &&
                        code != CURLE_COULDNT_RESOLVE_PROXY && code != CURLE_PROXY;
    std::string chosen = usable ? std::string(text) : curl_easy_strerror(code);
    std::replace_if(
        chosen.begin(), chosen.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    return chosen;
  }

  CURL* const curl_;
  const Request& request_;
  const Settings& settings_;
  curl_slist* lines_ = nullptr;
  char problem_[CURL_ERROR_SIZE] = "";
  Reply reply_;
  Headers headers_;
  std::size_t header_bytes_ = 0;
  Clock::time_point began_;
  Clock::time_point last_byte_;
  bool decided_ = false;
  bool wanted_ = false;       // the body goes to dst
  bool whole_range_ = false;  // the response has the entire requested range
  bool whole_file_ = false;
  bool given_up_ = false;
  bool stalled_ = false;
  bool out_of_memory_ = false;
  std::exception_ptr thrown_;  // by a function that libcurl has called
  std::size_t expected_ = 0;   // bytes of the body
  std::size_t dropped_ = 0;
  std::string refused_;  // the address
};

}  // namespace

bool is_temporary(long status) {
  return status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);
}

// A handle of the pool.
class Client::Lease {
 public:
  explicit Lease(Client& client) : client_(client) {
    std::unique_lock lock(client.mutex_);
    client.returned_.wait(lock, [&] { return client.busy_ < client.settings_.connections; });
    client.idle_.reserve(client.busy_ + client.idle_.size() + 1);  // so that the destructor need not allocate
    if (client.idle_.empty()) {
      curl_ = curl_easy_init();
      if (curl_ == nullptr) throw std::bad_alloc();
    } else {
      curl_ = client.idle_.back();
      client.idle_.pop_back();
    }
    ++client.busy_;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard lock(client_.mutex_);
    client_.idle_.push_back(curl_);
    --client_.busy_;
    client_.returned_.notify_one();
  }

  CURL* get() const { return curl_; }

 private:
  Client& client_;
  CURL* curl_;
};

Client::Client(Settings settings) : settings_(std::move(settings)), process_(getpid()) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialized != CURLE_OK) throw Failure{ST_ERR_INTERNAL, "libcurl cannot be initialized"};
}

Client::~Client() {
  for (CURL* const curl : idle_) {
    // curl_easy_reset() cleared CURLOPT_NOSIGNAL. Without it, libcurl ignores SIGPIPE in the whole process for the
    // duration of the call, and two threads that do so restore each other's handler.
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_cleanup(curl);
  }
}

bool Client::is_forked() const { return getpid() != process_; }

void Client::require_own_process() const {
  if (is_forked()) throw Failure{ST_ERR_STATE, "the process was forked after the file was opened: open it again"};
}

bool Client::may_keep(std::size_t bytes) {
  if (kept_.fetch_add(bytes) + bytes <= kMostKeptBytes) return true;
  kept_.fetch_sub(bytes);
  return false;
}

Reply Client::get(const Request& request) {
  require_own_process();
  const Lease lease(*this);
  return Exchange(lease.get(), request, settings_).run();
}

}  // namespace st::http
