// Compares the parser with the parser of an earlier revision, in one process: status, offset and table of mutated
// headers and indexes. It uses every set of rules, every kernel of simdjson that runs here, and windows so small that
// every token is cut somewhere.
//
//   fuzz_differential CASES SEED FOLDER...
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "inputs.hpp"
#include "reading.hpp"

namespace {

using differential::Case;
using differential::printable;
using differential::Random;
using differential::Seed;
using differential::Verdict;

// ---- comparing ------------------------------------------------------------------------------------------------------

// An intended difference: dtype names have no length, so names with a NUL are not listed.
bool lists_nul_in_dtype_no_more(const std::string& text, const Case& given, const Verdict& is) {
  constexpr int kUnknownDtype = 306;
  return given.unknown_dtypes && is.status == kUnknownDtype && text.find("\\u0000") != std::string::npos;
}

// Also intended: version 0.3 rejects more indexes.
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
  for (int i = 3; i < argc; ++i) differential::add_files(seeds, argv[i]);
  if (seeds.empty()) return std::fprintf(stderr, "there is no header in these folders\n"), 2;
  const auto available = differential::kernels();
  constexpr std::string_view kHeaderBegins = "{ \t\r\n";  // what begins otherwise is bintensors, which is other code
  std::map<int, std::size_t> verdicts;
  std::size_t with_nul = 0;
  std::size_t of_index = 0;
  for (std::size_t n = 0; n < cases; ++n) {
    Seed seed;
    switch (random.below(4)) {
      case 0: seed = differential::index_of(random); break;
      case 1: seed = seeds[random.below(seeds.size())]; break;
      default: seed = differential::header_of(random);
    }
    if (n % 16 != 0) differential::mutate(seed.text, random);
    const bool begins = seed.text.find_first_of(kHeaderBegins) == 0;
    if (!seed.index && !begins) seed.text.insert(0, 1, '{');
    Case given{seed.index, 0, random.below(4) == 0, seed.data_bytes};
    for (given.rules = 0; given.rules < (seed.index ? 1 : 3); ++given.rules) {
      given.window_bytes = differential::window_bytes(random);
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
