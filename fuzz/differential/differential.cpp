// The core at hand against that of an earlier revision, both in this process: verdict, status, offset and table of
// mutated headers and indexes must be the same, by every set of rules, with every kernel of simdjson that runs here, and
// with windows so small that every token is cut somewhere.
//
//   fuzz_differential CASES SEED FOLDER...
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <simdjson.h>

#include "reading.hpp"

namespace {

using differential::Case;
using differential::Verdict;
using namespace std::string_view_literals;

struct Seed {
  std::string text;
  std::uint64_t data_bytes = 0;
  bool index = false;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return engine_() % n; }
  template <std::size_t N>
  auto one_of(const std::string_view (&list)[N]) {
    return list[below(N)];
  }

 private:
  std::mt19937_64 engine_;
};

// ---- what is mutated ------------------------------------------------------------------------------------------------

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

std::string header_of(Random& random, std::uint64_t& at) {
  constexpr std::string_view kSpaces[] = {"", "", "", "", "", " ", "\n  "};
  constexpr std::string_view kDtypes[] = {"F32", "F32",         "F32",         "F16", "BF16",
                                          "I64", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "U8",  "F\\u0033\\u0032"};
  constexpr std::string_view kNames[] = {
      "model.layers.", "h.", "", "transformer.\\u00e9\\n", "\xC3\xA9\xF0\x9F\x98\x80,{", "a,b:c[]{}"};
  constexpr std::size_t kBits[] = {32, 32, 32, 16, 16, 64, 8, 8, 8, 32};
  const std::string_view s = random.one_of(kSpaces);
  std::string out = std::string(s) + "{";
  if (random.below(3) == 0) {
    out += fmt::format("{}\"__metadata__\"{}:{}{{\"format\":\"pt\",\"x,\":{}\"{}\"}},", s, s, s, s,
                       random.below(2) == 0 ? std::string(random.below(300), ',') : "\\\"{\\\\\\\"");
  }
  const std::size_t count = 1 + random.below(8);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t dtype = random.below(3) == 0 ? random.below(std::size(kDtypes)) : 0;
    std::string shape;
    std::uint64_t elements = 1;
    for (std::size_t rank = random.below(random.below(9) == 0 ? 12 : 4); rank > 0; --rank) {
      const std::uint64_t size = random.below(4) == 0 ? 1 : 1 + random.below(rank > 3 ? 2 : 3000);
      elements *= size;
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", size);
    }
    const std::uint64_t end = at + elements * kBits[dtype] / 8;
    const std::string offsets = fmt::format("\"data_offsets\"{}:{}[{},{}{}]", s, s, at, s, end);
    const std::string type = fmt::format("\"dtype\"{}:{}\"{}\"", s, s, kDtypes[dtype]);
    const bool swapped = random.below(12) == 0;
    out += fmt::format("{}\"{}{}\"{}:{}{{{},{}\"shape\":[{}],{}{}{}}}{}", s, random.one_of(kNames), i, s, s,
                       swapped ? offsets : type, s, shape, s, swapped ? type : offsets,
                       random.below(9) == 0 ? ",\"x\":[1.5e3,{\"y\":null,\"z\":\"\\ud83d\\ude00\"},true]" : "",
                       i + 1 < count ? "," : "");
    at = end;
  }
  out += "}";
  return out.append(random.below(3) == 0 ? random.below(150) : 0, ' ');
}

std::string index_of(Random& random) {
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
  return out + "}}";
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
    switch (random.below(8)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << random.below(8))); break;
      case 1: text[at] = kBytes[random.below(kBytes.size())]; break;
      case 2: text.insert(at, 1, kBytes[random.below(kBytes.size())]); break;
      case 3: text.erase(at, 1 + random.below(8)); break;
      case 4: text.insert(at, text.substr(random.below(text.size()), 1 + random.below(40))); break;
      case 5: text.insert(at, random.one_of(kTexts)); break;
      case 6: std::swap(text[at], text[random.below(text.size())]); break;
      default:
        if (random.below(8) == 0)
          text.resize(at);
        else
          text.insert(at, random.below(90), ' ');
    }
  }
}

// ---- comparing ------------------------------------------------------------------------------------------------------

std::vector<const simdjson::implementation*> kernels() {
  std::vector<const simdjson::implementation*> list;
  for (const auto* const kernel : simdjson::get_available_implementations()) {
    if (kernel->supported_by_runtime_system()) list.push_back(kernel);
  }
  return list;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7F ? std::string(1, c) : fmt::format("<{:02x}>", byte);
  }
  return out;
}

// A difference that was made on purpose: dtype names have no length, so that none with a NUL is listed.
bool lists_nul_in_dtype_no_more(const std::string& text, const Case& given, const Verdict& is) {
  constexpr int kUnknownDtype = 306;
  return given.unknown_dtypes && is.status == kUnknownDtype && text.find("\\u0000") != std::string::npos;
}

// Another one: what an index must not say since version 0.3.
bool refuses_more_of_an_index(const Case& given, const Verdict& was, const Verdict& is) {
  if (!given.index) return false;
  if (is.message.starts_with("index: metadata key ")) return is.message.ends_with(" occurs twice");
  return was.status == 0 && (is.message.ends_with("weight_map lists no tensor") || is.message.ends_with(" same file"));
}

[[noreturn]] void report(const std::string& text, const Case& given, const Verdict& was, const Verdict& is) {
  std::fprintf(stderr, "%s, rules %d, unknown dtypes %d, windows of %zu, kernel %s, %llu data bytes:\n%s\n",
               given.index        ? "index"
               : given.in_a_shard ? "header of a shard"
                                  : "header",
               given.rules, given.unknown_dtypes, given.window_bytes,
               simdjson::get_active_implementation()->name().c_str(), static_cast<unsigned long long>(given.data_bytes),
               printable(text).c_str());
  std::fprintf(stderr, "was: %d at %llu %s\n%s", was.status, static_cast<unsigned long long>(was.offset),
               was.message.c_str(), printable(was.table).c_str());
  std::fprintf(stderr, "is:  %d at %llu %s\n%s", is.status, static_cast<unsigned long long>(is.offset),
               is.message.c_str(), printable(is.table).c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: fuzz_differential CASES SEED FOLDER...\n"), 2;
  const std::size_t cases = std::strtoull(argv[1], nullptr, 10);
  Random random(std::strtoull(argv[2], nullptr, 10));
  std::vector<Seed> seeds;
  for (int i = 3; i < argc; ++i) add_files(seeds, argv[i]);
  const auto available = kernels();
  constexpr std::string_view kHeaderBegins = "{ \t\r\n";  // what begins otherwise is bintensors, which is other code
  constexpr std::size_t kWindows[] = {64, 65, 70, 80, 97, 128, 200, 333, 512, 1024, 16384};
  std::map<int, std::size_t> verdicts;
  std::size_t with_nul = 0;
  std::size_t of_index = 0;
  for (std::size_t n = 0; n < cases; ++n) {
    Seed seed;
    switch (random.below(4)) {
      case 0:
        seed.text = index_of(random);
        seed.index = true;
        break;
      case 1: seed = seeds[random.below(seeds.size())]; break;
      default: seed.text = header_of(random, seed.data_bytes);
    }
    if (n % 16 != 0) mutate(seed.text, random);
    const bool begins = seed.text.find_first_of(kHeaderBegins) == 0;
    if (!seed.index && !begins) seed.text.insert(0, 1, '{');
    Case given{seed.index, 0, random.below(4) == 0, seed.data_bytes};
    for (given.rules = 0; given.rules < (seed.index ? 1 : 3); ++given.rules) {
      given.window_bytes = kWindows[random.below(std::size(kWindows))];
      given.in_a_shard = random.below(2) == 0;
      simdjson::get_active_implementation() = available[random.below(available.size())];
      const Verdict was = differential::read_old(seed.text, given);
      const Verdict is = differential::read_new(seed.text, given);
      if (lists_nul_in_dtype_no_more(seed.text, given, is)) {
        ++with_nul;
      } else if (refuses_more_of_an_index(given, was, is)) {
        ++of_index;
      } else if (was.status != is.status || was.offset != is.offset || was.table != is.table) {
        report(seed.text, given, was, is);
      }
      ++verdicts[was.status];
    }
  }
  std::printf("%zu seeds, %zu mutants, no difference; kernels:", seeds.size(), cases);
  for (const auto* const kernel : available) std::printf(" %s", kernel->name().c_str());
  if (with_nul != 0) std::printf("\n  dtypes with a NUL, refused on purpose: %zu", with_nul);
  if (of_index != 0) std::printf("\n  indexes refused on purpose: %zu", of_index);
  for (const auto& [status, count] : verdicts) std::printf("\n  status %d: %zu", status, count);
  std::printf("\n");
}
