// The only file that uses simdjson's internals: its first stage, whose interface is the same from 3.0.1 to 4.6.
//
// A window ends after a byte that ends a token. If that byte is inside a string, the first stage reports an unclosed
// string, and the window is cut again before that string. Other errors of the first stage are handled the same way: the
// tokens before the error are read as usual, and the reader reports the error at its position. Only in these cases is
// text scanned byte by byte.
// SPDX-License-Identifier: Apache-2.0
#include "format/json/structure.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "base/error.hpp"
#include "format/header_options.hpp"
#include "format/utf8.hpp"

namespace st::format::json {

namespace {

// Returns the closing quote of the string whose first byte is `at`. Returns nullptr if the string is invalid or does
// not end before `end`.
char* closing_quote(char* at, const char* end) {
  constexpr std::string_view kEscapes = "\"\\/bfnrtu";
  for (; at < end && *at != '"'; ++at) {
    if (static_cast<unsigned char>(*at) < 0x20) return nullptr;
    if (*at == '\\' && (++at == end || kEscapes.find(*at) == kEscapes.npos)) return nullptr;
  }
  return at < end ? at : nullptr;
}

char* run_end(char* at, const char* end) {
  while (at < end && !is_space(*at) && !is_operator(*at) && *at != '"' && *at != '\\') ++at;
  return at;
}

// Returns the first string that is invalid or not closed before `end`, or the first misplaced quote or backslash.
// simdjson's kernels may disagree about the bytes after it, but not before it.
char* first_fault(char* at, char* end) {
  while (at != end) {
    if (is_space(*at) || is_operator(*at)) {
      ++at;
    } else if (*at == '"') {
      char* const close = closing_quote(at + 1, end);
      if (close == nullptr) return at;
      at = close + 1;
    } else {
      at = run_end(at, end);
      if (at != end && (*at == '"' || *at == '\\')) return at;
    }
  }
  return end;
}

}  // namespace

Structure::Structure(std::span<char> text, std::size_t window_bytes)
    : base(text.data()),
      plain_end(text.data()),
      text_begin(text.data()),
      text_end(text.data() + text.size()),
      window_bytes_(std::min(window_bytes, text.size())),
      end_(text.data()) {
  const auto capacity = window_bytes_ + kPositionsBehindTheLast;
  const auto problem = simdjson::get_active_implementation()->create_dom_parser_implementation(capacity, 1, stage1_);
  if (problem == simdjson::MEMALLOC) throw std::bad_alloc();
  if (problem != simdjson::SUCCESS) fail(Status::internal, "simdjson: {}", simdjson::error_message(problem));
  set_window(text_begin, text_begin, 0);
}

Structure::~Structure() = default;

void Structure::read_window() {
  while (next == last && end_ != text_end) {
    char* const begin = end_;
    char* const end = cut(begin);
    if (end == begin) {
      index_long_token(begin);
    } else if (!index(begin, end)) {
      index_faulty(begin, end);
    }
  }
}

// Returns where to end the window: after the last '}' in its final 512 bytes, or else after the last byte that ends a
// token. Returns `begin` if there is neither.
char* Structure::cut(char* begin) const {
  constexpr std::size_t kNear = 512;
  if (static_cast<std::size_t>(text_end - begin) <= window_bytes_) return text_end;
  const std::string_view window(begin, window_bytes_);
  const std::size_t tail = window.size() - std::min(window.size(), kNear);
  if (const std::size_t at = window.substr(tail).rfind('}'); at != window.npos) return begin + tail + at + 1;
  return begin + (window.find_last_of(",:{}[] \t\r\n") + 1);
}

// Returns false if a string in the window is invalid or not closed.
bool Structure::index(char* begin, char* end) {
  const auto bytes = static_cast<std::size_t>(end - begin);
  const auto* const text = reinterpret_cast<const std::uint8_t*>(begin);
  switch (const auto problem = stage1_->stage1(text, bytes, simdjson::stage1_mode::regular)) {
    case simdjson::SUCCESS: set_window(begin, end, stage1_->n_structural_indexes); return true;
    case simdjson::EMPTY: set_window(begin, end, 0); return true;
    case simdjson::UNCLOSED_STRING:
    case simdjson::UNESCAPED_CHARS: return false;
    case simdjson::UTF8_ERROR:  // the fallback kernel also reports it for some bytes after a backslash
      if (!checks_utf8_) return index_any_bytes(begin, end);
      if (!is_utf8({text_begin, static_cast<std::size_t>(text_end - text_begin)})) fail(Status::utf8, "not UTF-8");
      return false;
    default: fail(Status::internal, "simdjson: {}", simdjson::error_message(problem));
  }
}

// Indexes a copy of the window in which letters replace all non-ASCII bytes. Such bytes never begin or end a token.
bool Structure::index_any_bytes(char* begin, char* end) {
  std::vector<char> copy(static_cast<std::size_t>(end - begin) + kPadding);
  std::transform(begin, end, copy.begin(), [](char c) { return static_cast<unsigned char>(c) < 0x80 ? c : 'x'; });
  char* const copy_end = copy.data() + (end - begin);
  if (!index(copy.data(), copy_end)) return false;
  set_window(begin, end, static_cast<std::size_t>(last - next));
  return true;
}

void Structure::index_faulty(char* begin, char* end) {
  char* fault = first_fault(begin, end);
  while (fault != begin && is_space(fault[-1])) --fault;
  if (fault == begin) return index_long_token(begin);
  if (!index(begin, fault)) fail(Status::internal, "simdjson reports an error in valid text");
}

// Indexes a single token that is invalid or longer than a window.
void Structure::index_long_token(char* begin) {
  char* const token = std::find_if_not(begin, text_end, is_space);
  char* end = run_end(token, text_end);
  if (*token == '"') {
    char* const close = closing_quote(token + 1, text_end);
    end = close == nullptr ? text_end : close + 1;
  }
  end = std::max(end, token + 1);
  if (checks_utf8_ && !is_utf8({token, static_cast<std::size_t>(end - token)})) fail(Status::utf8, "not UTF-8");
  stage1_->structural_indexes[0] = static_cast<std::uint32_t>(token - begin);
  set_window(begin, end, 1);
  plain_end = begin;
}

void Structure::set_window(char* begin, char* end, std::size_t tokens) {
  base = begin;
  end_ = end;
  next = stage1_->structural_indexes.get();
  last = next + tokens;
  std::fill_n(last, kPositionsBehindTheLast, static_cast<std::uint32_t>(end - begin));
  find_backslash(begin);
}

void Structure::find_backslash(char* from) {
  const std::string_view rest(from, static_cast<std::size_t>(end_ - from));
  plain_end = from + std::min(rest.find('\\'), rest.size());
}

}  // namespace st::format::json
