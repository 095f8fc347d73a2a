// Finds where each token of a JSON text begins, using simdjson's first stage on one window of the text at a time.
//
// Windows keep the positions in the L1 cache, and bound memory for texts of any length. simdjson chooses its kernel for
// the processor at run time. It also checks that the text is UTF-8, that strings contain no control bytes, and that
// they end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/compiler.hpp"

namespace simdjson::internal {
class dom_parser_implementation;
}

namespace st::format::json {

inline constexpr std::size_t kPositionsBehindTheLast = 40;  // readable positions after the last token

constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// A bracket, comma or colon.
constexpr bool is_operator(char c) { return c == ',' || c == ':' || (c | 0x20) == '{' || (c | 0x20) == '}'; }

// A cursor over tokens: operators, strings, and runs of other bytes (numbers, words, errors). A run ends before white
// space, an operator, or the end of the text. Between tokens there is only white space. The reader checks escapes and
// the contents of runs.
class Structure {
 public:
  Structure(std::span<char> text, std::size_t window_bytes);
  Structure(const Structure&) = delete;
  Structure& operator=(const Structure&) = delete;
  ~Structure();

  // Returns the first byte of the next token, or the zero byte after the text.
  ST_ALWAYS_INLINE char peek() {
    if (next == last) [[unlikely]]
      read_window();
    return base[*next];
  }
  // Returns the next token. Call peek() first.
  char* at() const { return base + *next; }

  void find_backslash(char* from);  // sets plain_end

  // Accepts text that is not UTF-8. By default, such text throws Status::utf8.
  void accept_any_bytes() { checks_utf8_ = false; }

  // The window's remaining tokens begin at base[*next] to base[*(last - 1)]. From *last on, all positions are the end
  // of the window.
  char* base;
  std::uint32_t* next = nullptr;
  std::uint32_t* last = nullptr;
  char* plain_end;  // there is no backslash between the next token and here

  char* const text_begin;
  char* const text_end;

 private:
  void read_window();
  char* cut(char* begin) const;
  bool index(char* begin, char* end);
  bool index_any_bytes(char* begin, char* end);
  void index_faulty(char* begin, char* end);
  void index_long_token(char* begin);
  void set_window(char* begin, char* end, std::size_t tokens);

  std::unique_ptr<simdjson::internal::dom_parser_implementation> stage1_;
  std::size_t window_bytes_;
  char* end_;  // of the window
  bool checks_utf8_ = true;
};

}  // namespace st::format::json
