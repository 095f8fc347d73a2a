// Every file of the corpus gets the expected verdict and status, with each set of rules, each way of opening it, and
// each of simdjson's kernels.
//
// expected.tsv has the reference implementation's verdicts. statuses.tsv has our status for each file, determined by
// inspecting the files, not by running the library.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "system.hpp"
#include "ways.hpp"

namespace conformance {
namespace {

const std::string kFolder = ST_CONFORMANCE_DIR;
constexpr std::size_t kFiles = 316;

struct Rules {
  const char* name;
  std::uint32_t flags;
  std::size_t column;  // of statuses.tsv
};
constexpr Rules kRules[] = {{"default", 0, 1}, {"reference", ST_OPEN_REFERENCE, 2}, {"strict", ST_OPEN_STRICT, 3}};

std::string path_of(const std::string& file) { return kFolder + "/files/" + file; }

bool is_one_line(const std::string& message) {
  return !message.empty() && message.size() < sizeof(st_error::message) &&
         std::none_of(message.begin(), message.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

TEST(Verdicts, TheStatusIsTheOneInTheTable) {
  const auto rows = rows_of(kFolder + "/statuses.tsv");
  ASSERT_EQ(rows.size(), kFiles);
  for (const auto& row : rows) {
    const std::string bytes = bytes_of(path_of(row[0]));
    for (const Rules& rules : kRules) {
      const Outcome outcome = open_memory({}, bytes, rules.flags);
      EXPECT_EQ(st_status_name(outcome.status), row.at(rules.column))
          << row[0] << ", " << rules.name << " rules: " << outcome.message;
    }
  }
}

TEST(Verdicts, TheVerdictAndTheNumberOfTensorsAreThoseOfTheReference) {
  const auto rows = rows_of(kFolder + "/expected.tsv");
  ASSERT_EQ(rows.size(), kFiles);
  for (const auto& row : rows) {
    for (const std::size_t column : {1u, 2u}) {
      st_open_options options = ST_INIT(st_open_options);
      options.flags = column == 1 ? 0 : ST_OPEN_REFERENCE;
      st_error err = ST_INIT(st_error);
      st_file* file = nullptr;
      st_open(path_of(row[0]).c_str(), &options, &file, &err);
      EXPECT_EQ(file != nullptr, row.at(column) == "ok") << row[0] << ": " << err.message;
      if (file == nullptr) continue;
      EXPECT_EQ(std::to_string(st_count_tensors(file)), row.at(4)) << row[0];
      st_free(file);
    }
  }
}

TEST(Verdicts, EveryWayOfOpeningSaysTheSame) {
  for (const auto& row : rows_of(kFolder + "/expected.tsv")) {
    const std::string path = path_of(row[0]);
    const std::string bytes = bytes_of(path);
    for (const Rules& rules : kRules) {
      const Outcome first = kWays[0].open(path, bytes, rules.flags);
      for (const Way& way : kWays) {
        const Outcome outcome = way.open(path, bytes, rules.flags);
        EXPECT_TRUE(outcome == first) << row[0] << ", " << rules.name << " rules, " << way.name << ":\n  "
                                      << st_status_name(outcome.status) << ' ' << outcome.offset << ' '
                                      << outcome.message << "\n  and not, as by " << kWays[0].name << ",\n  "
                                      << st_status_name(first.status) << ' ' << first.offset << ' ' << first.message;
      }
    }
  }
}

TEST(Verdicts, EveryRefusalIsExplainedInOneLine) {
  for (const auto& row : rows_of(kFolder + "/expected.tsv")) {
    const std::string bytes = bytes_of(path_of(row[0]));
    for (const Rules& rules : kRules) {
      const Outcome outcome = open_memory({}, bytes, rules.flags);
      if (outcome.status == ST_OK) continue;
      EXPECT_TRUE(is_one_line(outcome.message)) << row[0] << ": " << outcome.message;
      EXPECT_EQ(outcome.message.find("failed to"), std::string::npos) << row[0] << ": " << outcome.message;
      EXPECT_TRUE(outcome.offset <= bytes.size() || outcome.offset == UINT64_MAX)
          << row[0] << ": offset " << outcome.offset << " in a file of " << bytes.size();
    }
  }
}

// Files rejected by both the strict and the default rules are rejected for the same reason. The reference accepts every
// file that the default rules accept.
TEST(Verdicts, TheRulesAreOrderedByStrictness) {
  for (const auto& row : rows_of(kFolder + "/expected.tsv")) {
    const std::string bytes = bytes_of(path_of(row[0]));
    const Outcome standard = open_memory({}, bytes, 0);
    const Outcome strict = open_memory({}, bytes, ST_OPEN_STRICT);
    const Outcome reference = open_memory({}, bytes, ST_OPEN_REFERENCE);
    EXPECT_TRUE(standard.status == ST_OK || strict.status == standard.status) << row[0] << ": " << strict.message;
    EXPECT_TRUE(strict.status != ST_OK || strict.listing == standard.listing) << row[0];
    EXPECT_TRUE(standard.status != ST_OK || reference.listing == standard.listing) << row[0];
  }
}

TEST(Verdicts, TheRawHeaderIsWhatTheFileHas) {
  for (const auto& row : rows_of(kFolder + "/expected.tsv")) {
    const std::string bytes = bytes_of(path_of(row[0]));
    st_open_options options = ST_INIT(st_open_options);
    options.flags = ST_OPEN_REFERENCE | ST_OPEN_UNKNOWN_DTYPES;
    st_file* file = nullptr;
    if (st_open_memory(bytes.data(), bytes.size(), nullptr, nullptr, &options, &file, nullptr) != ST_OK) continue;
    std::size_t size = 0;
    const char* const header = st_get_header(file, 0, &size);
    ASSERT_NE(header, nullptr) << row[0];
    EXPECT_EQ(std::string(header, size), bytes.substr(8, size)) << row[0];
    EXPECT_EQ(header[size], '\0') << row[0];
    EXPECT_EQ(st_get_header(file, 0, nullptr), header) << row[0] << ": asked again, it moved";
    st_free(file);
  }
}

// ---- simdjson's kernels -------------------------------------------------------------------------------------------------

// simdjson reads the variable only at its first use, so each kernel needs a process.
int run_verdicts_with(const char* kernel, bool quietly = false) {
  const std::vector<std::string> arguments{"--gtest_filter=Verdicts.The*", "--gtest_brief=1"};
  return run_this_program(arguments, "SIMDJSON_FORCE_IMPLEMENTATION", kernel, quietly);
}

struct Kernel {
  const char* name;
  bool runs_here;
};

std::vector<Kernel> kernels() {
#if defined(__x86_64__)
  const bool westmere = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  const bool haswell = westmere && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
  const bool icelake = haswell && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2");
  return {{"fallback", true}, {"westmere", westmere}, {"haswell", haswell}, {"icelake", icelake}};
#elif defined(__aarch64__)
  return {{"fallback", true}, {"arm64", true}};
#else
  return {{"fallback", true}};
#endif
}

TEST(Kernels, EveryOneGivesTheSameVerdicts) {
  for (const Kernel& kernel : kernels()) {
    EXPECT_TRUE(!kernel.runs_here || run_verdicts_with(kernel.name) == 0) << kernel.name;
  }
}

// Otherwise the test above would pass without choosing any kernel.
TEST(Kernels, AKernelThatDoesNotExistValidatesNothing) { EXPECT_EQ(run_verdicts_with("no-such-kernel", true), 1); }

}  // namespace
}  // namespace conformance
