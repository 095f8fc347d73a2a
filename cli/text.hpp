// Text for messages and terminals: formatting, escapes, numbers, suggestions, and paths.
//
// Names come from untrusted files. Characters that a terminal would interpret (control characters, escape sequences,
// direction marks) become visible escapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <safetensors/safetensors.hpp>

#include "base/text.hpp"

namespace cli {

using st::formatted;
using st::is_index_name;

// ---- names and values from files ------------------------------------------------------------------------------------

// Returns the text with control characters escaped as \n, \t, \u001b, and invalid UTF-8 bytes as \xff.
std::string printable(std::string_view text);

bool is_utf8(std::string_view text);

// Returns the character of UTF-8 at `at`, and advances `at`. A byte that begins none is a character beyond Unicode.
char32_t next_character(std::string_view text, std::size_t& at);

// Changes the letters of ASCII only.
std::string lower_case(std::string text);

// Returns at most `limit` characters of a name or value, followed by its length if it is truncated. Adds quotes if the
// text has escapes or would otherwise be ambiguous.
std::string shown(std::string_view text, std::size_t limit);

// Returns the width in columns that fmt assumes for padding; less than 1000.
std::size_t width_of(std::string_view text);

// ---- numbers --------------------------------------------------------------------------------------------------------

// Returns a shape such as "[50257, 768]". A shape that is too wide for a column is truncated and followed by its rank.
std::string shape_text(safetensors::View<std::uint64_t> shape);

std::string human_bytes(std::uint64_t bytes);  // "548.1 MB", in decimal units as file managers use them
std::string human_count(std::uint64_t count);  // "137.0 M"
std::string grouped(std::uint64_t count);      // "100,000"
std::string counted(std::uint64_t count, std::string_view thing);  // "1 tensor", "100,000 tensors"

std::string hex(const std::vector<unsigned char>& bytes);

// ---- suggestions ----------------------------------------------------------------------------------------------------

// Returns ", did you mean 'WORD'?" with the most similar of these words, or nothing if none is similar.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words);

// ---- paths ----------------------------------------------------------------------------------------------------------

// These convert between std::filesystem paths and the command's text, which is UTF-8 on Windows and any bytes
// elsewhere.
inline std::filesystem::path path_of(const std::string& text) { return std::u8string(text.begin(), text.end()); }

inline std::string text_of(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

}  // namespace cli
