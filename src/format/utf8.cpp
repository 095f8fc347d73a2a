// Uses simdjson's validator, which chooses its kernel for the processor at run time. It only returns whether a text is
// valid. first_not_utf8() finds the position by validating shorter and shorter parts.
// SPDX-License-Identifier: Apache-2.0
#include "format/utf8.hpp"

#include <algorithm>

#include <simdjson.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace st::format {

namespace {

// Makes simdjson choose its kernel while the library is loaded. Otherwise simdjson does so at first use, and allocates
// in noexcept functions. If memory ran out there, the process would terminate instead of returning an error. All code
// that uses simdjson also links this file.
[[maybe_unused]] const bool kKernelIsChosen = simdjson::validate_utf8("", 0);

}  // namespace

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::size_t first_not_utf8(std::string_view text) {
  std::size_t good = 0;  // all bytes before it are UTF-8
  for (std::size_t step = std::size_t{1} << 20; step >= 4; step /= 16) {
    while (text.size() - good > step) {
      std::size_t n = step;
      while (n > step - 3 && continues_character(text[good + n])) --n;  // do not split a character
      if (!is_utf8(text.substr(good, n))) break;
      good += n;
    }
  }
  const auto next_character = [&]() -> std::size_t {
    for (std::size_t n = 1; n <= std::min<std::size_t>(4, text.size() - good); ++n) {
      if (is_utf8(text.substr(good, n))) return n;
    }
    return 0;
  };
  while (const std::size_t n = next_character()) good += n;
  return good;
}

void require_utf8(std::string_view text, std::uint64_t origin, std::string_view document) {
  if (is_utf8(text)) return;
  const std::size_t at = first_not_utf8(text);
  fail_at(Status::utf8, origin + at, "{} is not UTF-8: byte 0x{:02x} at {}", document,
          static_cast<unsigned char>(text[at]), origin + at);
}

LibraryVersion simdjson_version() {
  return {simdjson::SIMDJSON_VERSION_MAJOR, simdjson::SIMDJSON_VERSION_MINOR, simdjson::SIMDJSON_VERSION_REVISION};
}

}  // namespace st::format
