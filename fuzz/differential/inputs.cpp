// SPDX-License-Identifier: Apache-2.0
#include "inputs.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/core.h>

namespace differential {

using namespace std::string_view_literals;

void add_files(std::vector<Seed>& seeds, const std::filesystem::path& folder) {
  constexpr std::size_t kLargest = 6000;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.file_size() < kLargest) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());  // the mutants depend on the order
  for (const auto& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(stream), {}};
    if (file.size() < 10 || file[2] != '\0') continue;
    const std::size_t length = static_cast<unsigned char>(file[0]) | std::size_t{static_cast<unsigned char>(file[1])}
                                                                         << 8;
    if (length > file.size() - 8) continue;
    seeds.push_back({file.substr(8, length), file.size() - 8 - length});
  }
}

Seed header_of(Random& random) {
  std::uint64_t at = 0;
  constexpr std::string_view kSpaces[] = {"", "", "", "", "", " ", "\n  "};
  constexpr std::string_view kDtypes[] = {"F32", "F32",         "F32",         "F16", "BF16",
                                          "I64", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "U8",  "F\\u0033\\u0032"};
  constexpr std::string_view kNames[] = {
      "model.layers.", "h.", "", "transformer.\\u00e9\\n", "\xC3\xA9\xF0\x9F\x98\x80,{", "a,b:c[]{}"};
  constexpr std::size_t kBits[] = {32, 32, 32, 16, 16, 64, 8, 8, 8, 32};
  const std::string_view s = random.one_of(kSpaces);
  std::string out = std::string(s) + "{";
  if (random.below(3) == 0) {
    out += fmt::format("{}\"__metadata__\"{}:{}{{\"format\":\"pt\",\"x,\":{}\"{}\"", s, s, s, s,
                       random.below(2) == 0 ? std::string(random.below(300), ',') : "\\\"{\\\\\\\"");
    for (std::size_t i = random.below(50) == 0 ? random.below(200) : 0; i > 0; --i) {
      out += fmt::format(",{}\"k{}\":\"\"", s, i);
    }
    out += "},";
  }
  // Rare, because large headers are slow.
  const bool is_large = random.below(500) == 0;
  const std::size_t count = is_large ? 100 + random.below(1500) : 1 + random.below(8);
  const std::size_t largest = is_large ? 4 : 3000;  // dimension
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t dtype = random.below(3) == 0 ? random.below(std::size(kDtypes)) : 0;
    std::string shape;
    std::uint64_t elements = 1;
    for (std::size_t rank = random.below(random.below(9) == 0 ? 12 : 4); rank > 0; --rank) {
      const std::uint64_t size = random.below(4) == 0 ? 1 : 1 + random.below(rank > 3 ? 2 : largest);
      elements *= size;
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", size);
    }
    const std::uint64_t end = at + elements * kBits[dtype] / 8;
    const std::string offsets = fmt::format("\"data_offsets\"{}:{}[{},{}{}]", s, s, at, s, end);
    const std::string type = fmt::format("\"dtype\"{}:{}\"{}\"", s, s, kDtypes[dtype]);
    const bool swapped = random.below(12) == 0;
    // One after the other, because compilers evaluate arguments in different orders.
    const std::string_view name = random.one_of(kNames);
    const bool has_more = random.below(9) == 0;
    out += fmt::format("{}\"{}{}\"{}:{}{{{},{}\"shape\":[{}],{}{}{}}}{}", s, name, i, s, s, swapped ? offsets : type, s,
                       shape, s, swapped ? type : offsets,
                       has_more ? ",\"x\":[1.5e3,{\"y\":null,\"z\":\"\\ud83d\\ude00\"},true]" : "",
                       i + 1 < count ? "," : "");
    at = end;
  }
  out += "}";
  out.append(random.below(3) == 0 ? random.below(150) : 0, ' ');
  return {std::move(out), at};
}

Seed index_of(Random& random) {
  constexpr std::string_view kSpaces[] = {"", " ", "\n    "};
  const std::string_view s = random.one_of(kSpaces);
  std::string out = "{";
  if (random.below(2) == 0)
    out += fmt::format("{}\"metadata\":{}{{\"total_size\":{}123,\"a\": {{\"b\":[1, 2]}} ,\"c\":\"d\\n\"}},", s, s, s);
  if (random.below(4) == 0) out += "\"other\":[{},-1e5,\"x,y\"],";
  out += fmt::format("{}\"weight_map\":{}{{", s, s);
  const std::size_t count = random.below(20);
  for (std::size_t i = 0; i < count; ++i) {
    out += fmt::format("{}{}\"layer.{}.weight\":{}\"model-{:05}-of-00003.safetensors\"", i == 0 ? "" : ",", s, i, s,
                       1 + i / 7);
  }
  return {out + "}}", 0, true};
}

// Changes the first number at or after `at`. Most headers stay valid JSON, and the rules for sizes and places decide.
void change_number(std::string& text, std::size_t at, Random& random) {
  constexpr std::string_view kNumbers[] = {"0",
                                           "1",
                                           "2",
                                           "4294967295",
                                           "4294967296",
                                           "1152921504606846976",
                                           "-1",
                                           "1.0",
                                           "9223372036854775807",
                                           "1e1",
                                           "00",
                                           "9223372036854775808",
                                           "12",
                                           "18446744073709551615",
                                           "18446744073709551616"};
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = text.find_first_of(kDigits, at);
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
  switch (random.below(4)) {
    case 0: text.replace(begin, end - begin, random.one_of(kNumbers)); break;
    case 1: {
      // In 64 bits, the product of the shape and the dtype's bits stays the same.
      const std::uint64_t number = std::strtoull(text.c_str() + begin, nullptr, 10);
      text.replace(begin, end - begin, fmt::format("{}", number + (std::uint64_t{1} << (58 + random.below(5)))));
      break;
    }
    case 2: text[end - 1] = kDigits[random.below(kDigits.size())]; break;
    default: text[begin] = kDigits[random.below(kDigits.size())];
  }
}

// Changes the first dtype at or after `at`.
void change_dtype(std::string& text, std::size_t at, Random& random) {
  constexpr std::string_view kKey = "\"dtype\":\"";
  constexpr std::string_view kDtypes[] = {"F4",  "F6_E2M3", "F6_E3M2", "F8_E8M0", "BOOL", "C64",
                                          "F64", "I32",     "U16",     "f32",     "F32 ", ""};
  const std::size_t key = text.find(kKey, at);
  if (key == std::string::npos) return;
  const std::size_t begin = key + kKey.size();
  const std::size_t end = text.find('"', begin);
  if (end != std::string::npos) text.replace(begin, end - begin, random.one_of(kDtypes));
}

// One field of an entry, with its name: [begin, end). Knows only the usual spelling.
std::string_view field_after(std::string_view text, std::string_view name, char last) {
  const std::size_t begin = text.find(name);
  if (begin == std::string_view::npos) return {};
  const std::size_t end = text.find(last, begin + name.size());
  return end == std::string_view::npos ? std::string_view() : text.substr(begin, end + 1 - begin);
}

// Replaces a field of an entry at or after `at` by another one, or by a value nested about as deep as is permitted.
void change_field(std::string& text, std::size_t at, Random& random) {
  const std::string_view rest = std::string_view(text).substr(at);
  const std::string_view fields[] = {field_after(rest, "\"dtype\":\"", '"'), field_after(rest, "\"shape\":[", ']'),
                                     field_after(rest, "\"data_offsets\":[", ']')};
  const std::string_view old = random.one_of(fields);
  if (old.empty()) return;
  const std::size_t depth = 120 + random.below(10);
  const bool nested = random.below(2) == 0;
  std::string better(random.one_of(fields));
  if (nested) better = fmt::format("\"x\":{}{},{}", std::string(depth, '['), std::string(depth, ']'), old);
  text.replace(at + static_cast<std::size_t>(old.data() - rest.data()), old.size(), better);
}

void mutate(std::string& text, Random& random) {
  constexpr auto kBytes = "\"\"\\\\{}[]::,,0123456789-.eEtfnu \n\t\r\0\x01\x0C\x1A\x1F\x7F\x80\xBF\xC3\xE2\xF0\xFF"sv;
  constexpr std::string_view kTexts[] = {"\"",
                                         "\\",
                                         "\\u00",
                                         "\\ud800",
                                         "\\ud83d\\ude00",
                                         "\xC3\xA9",
                                         "\xE2\x82\xAC",
                                         "\xF0\x9F\x98\x80",
                                         "\xED\xA0\x80",
                                         "null",
                                         "true",
                                         "false",
                                         "1e999",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "-0",
                                         "01",
                                         "[[[[[[[[",
                                         "{\"a\":",
                                         "\"dtype\":\"F32\",",
                                         "\"shape\":[1],",
                                         "\"data_offsets\":[0,4]",
                                         ",\"x\":[{\"y\":1.5}]",
                                         "\"__metadata__\":{},",
                                         "\"__metadata__\":null,",
                                         "[\"F32\",[1],[0,4]]",
                                         "{\"F32\":null}",
                                         "\"odd\"",
                                         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"sv,
                                         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0::::::::1"sv,
                                         "                                                                      "};
  for (std::size_t n = 1 + random.below(random.below(4) == 0 ? 6 : 2); n > 0 && !text.empty(); --n) {
    const std::size_t at = random.below(text.size());
    switch (random.below(15)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << random.below(8))); break;
      case 1: text[at] = kBytes[random.below(kBytes.size())]; break;
      case 2: text.insert(at, 1, kBytes[random.below(kBytes.size())]); break;
      case 3: text.erase(at, 1 + random.below(8)); break;
      case 4: {
        const std::size_t from = random.below(text.size());
        text.insert(at, text.substr(from, 1 + random.below(40)));
        break;
      }
      case 5: text.insert(at, random.one_of(kTexts)); break;
      case 6: std::swap(text[at], text[random.below(text.size())]); break;
      case 7:
      case 8:
      case 9:
      case 10:
      case 11: change_number(text, at, random); break;
      case 12: change_dtype(text, at, random); break;
      case 13: change_field(text, at, random); break;
      default:
        if (random.below(8) == 0) {
          text.resize(at);
        } else {
          text.insert(at, random.below(90), ' ');
        }
    }
  }
}

std::vector<const simdjson::implementation*> kernels() {
  std::vector<const simdjson::implementation*> list;
  for (const auto* const kernel : simdjson::get_available_implementations()) {
    if (kernel->supported_by_runtime_system()) list.push_back(kernel);
  }
  return list;
}

std::size_t window_bytes(Random& random) {
  constexpr std::size_t kWindows[] = {64, 65, 70, 80, 97, 128, 200, 333, 512, 1024, 16384};
  return kWindows[random.below(std::size(kWindows))];
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte == '\n' || (byte >= 0x20 && byte < 0x7F) ? std::string(1, c) : fmt::format("<{:02x}>", byte);
  }
  return out;
}

}  // namespace differential
