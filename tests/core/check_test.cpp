// What a check finds first is what opening reports, in every mode.
// SPDX-License-Identifier: Apache-2.0
#include "core/check.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/checkpoint.hpp"

namespace st::core {
namespace {

namespace fs = std::filesystem;

std::vector<OpenOptions> every_mode() {
  std::vector<OpenOptions> modes;
  for (const format::Rules rules : {format::Rules::standard, format::Rules::strict, format::Rules::reference}) {
    for (const bool unknown_dtypes : {false, true}) {
      OpenOptions& mode = modes.emplace_back();
      mode.header.rules = rules;
      mode.header.unknown_dtypes = unknown_dtypes;
    }
  }
  return modes;
}

Error error_of_opening(const std::string& path, const OpenOptions& mode) {
  try {
    Checkpoint::open(path.c_str(), mode);
    return {Status::ok, 0, kNowhere, {}};
  } catch (const Error& error) {
    return error;
  }
}

// Returns whether opening refuses it.
bool agree(const std::string& path, const OpenOptions& mode) {
  const Error error = error_of_opening(path, mode);
  const Report report = check(path.c_str(), mode);
  if (error.status == Status::ok) {
    for (const Finding& finding : report) EXPECT_TRUE(finding.is_note) << path << ": " << finding.fault.message;
    return false;
  }
  if (report.empty()) {
    ADD_FAILURE() << path << ": " << error.message;
    return true;
  }
  const Finding& first = report.front();
  EXPECT_FALSE(first.is_note) << path;
  EXPECT_EQ(first.fault.status, error.status) << path;
  EXPECT_EQ(first.fault.offset, error.offset) << path;
  EXPECT_EQ(in_quotes(path) + ": " + first.fault.message, error.message);
  EXPECT_EQ(*first.path, path);
  return true;
}

TEST(Check, FindsFirstWhatOpeningReports) {
  std::size_t refused = 0;
  for (const char* const folder : {"files", "bintensors", "slices", "writer"}) {
    for (const auto& file : fs::recursive_directory_iterator(fs::path(ST_TESTS_DIR) / "conformance" / folder)) {
      const std::string path = file.path().string();
      if (!file.is_regular_file() || path.ends_with(".index.json")) continue;
      for (const OpenOptions& mode : every_mode()) refused += agree(path, mode) ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 500U);
}

}  // namespace
}  // namespace st::core
