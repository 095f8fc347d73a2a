// The first error that a check finds is the one that opening reports, in every mode.
// SPDX-License-Identifier: Apache-2.0
#include "core/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "core/checkpoint.hpp"
#include "shards.hpp"

namespace st::core::check_test {
namespace {

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

// Returns whether opening rejects it.
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

class CheckModel : public ShardsTest {
 protected:
  void put_index(const std::string& entries) const {
    put("model.safetensors.index.json", "{\"weight_map\":{" + entries + "}}");
  }

  // Returns the error of opening.
  Error agree_on(const fs::path& path, const OpenOptions& options) const {
    Error error = error_of(path, options);
    const Report report = check(path.string().c_str(), options);
    const auto first = std::ranges::find_if(report, [](const Finding& finding) { return !finding.is_note; });
    if (error.status == Status::ok) {
      EXPECT_EQ(first, report.end()) << first->fault.message;
    } else if (first == report.end()) {
      ADD_FAILURE() << "no error is found: " << error.message;
    } else {
      EXPECT_EQ(first->fault.status, error.status) << first->fault.message;
      EXPECT_EQ(first->fault.offset, error.offset) << first->fault.message;
      EXPECT_TRUE(first->fault.message == error.message ||
                  in_quotes(*first->path) + ": " + first->fault.message == error.message)
          << "check: " << first->fault.message << "\nopen:  " << error.message;
    }
    return error;
  }

  static std::ptrdiff_t count_of(std::string_view message, const Report& report) {
    return std::ranges::count_if(report, [&](const Finding& finding) { return finding.fault.message == message; });
  }

  OpenOptions strict() const {
    OpenOptions options;
    options.header.rules = format::Rules::strict;
    return options;
  }
};

constexpr const char* kShard1 = "model-00001-of-00002.safetensors";
constexpr const char* kShard2 = "model-00002-of-00002.safetensors";

std::string claim(const std::string& tensor, const std::string& shard) {
  return formatted(R"("{}":"{}")", tensor, shard);
}

TEST_F(CheckModel, ReportsClaimsInTheOrderOfTheShards) {
  put_index(claim("second", kShard2) + "," + claim("first", kShard1));
  EXPECT_NE(agree_on(index(), {}).message.find("'first' is not in its shard"), std::string::npos);
}

TEST_F(CheckModel, ReportsUnlistedTensorsInTheWordsOfOpening) {
  put(kShard1, model(entry("a", 0) + entry("b", 4) + entry("d", 8), 12, 'x'));
  put_index(claim("a", kShard1) + "," + claim("c", kShard2));
  EXPECT_NE(agree_on(index(), strict()).message.find("contains 2 tensors that the index does not list"),
            std::string::npos);
  const Report report = check(index().c_str(), strict());
  EXPECT_EQ(std::ranges::count_if(report, [](const Finding& finding) { return finding.tensor != nullptr; }), 2);
  EXPECT_EQ(count_of("tensor 'd' is not listed in the index", report), 1);
  put_index(claim("absent", kShard2) + "," + claim("a", kShard1));  // unlisted tensors of a shard, then the next shard
  EXPECT_NE(agree_on(index(), strict()).message.find("contains 2 tensors"), std::string::npos);
}

TEST_F(CheckModel, ReportsClaimsBeforeNamesInTwoShards) {
  put(kShard2, model(entry("c", 0) + entry("a", 4), 8, 'y'));
  put_index(claim("a", kShard1) + "," + claim("absent", kShard2));
  EXPECT_NE(agree_on(index(), {}).message.find("'absent' is not in its shard"), std::string::npos);
  put_index(claim("a", kShard1) + "," + claim("c", kShard2));
  EXPECT_NE(agree_on(index(), {}).message.find("'a' is in two shards"), std::string::npos);
}

TEST_F(CheckModel, ReportsTheSumOfTheHeadersFirstAndWithItsNumbers) {
  OpenOptions options;
  options.max_headers_bytes = 2;  // the length of the invalid one
  for (const bool has_index : {false, true}) {
    if (has_index) put_index(claim("a", kShard1) + "," + claim("c", kShard2) + "," + claim("d", "others.safetensors"));
    for (const bool bad : {false, true}) {
      put(kShard1, bad ? format::file_front("{]") : model(entry("a", 0) + entry("b", 4), 8, 'x'));
      const fs::path path = has_index ? fs::path(index()) : folder;
      EXPECT_EQ(agree_on(path, options).status, Status::header_size);
      const Report report = check(path.string().c_str(), options);
      EXPECT_EQ(report.size(), 1U + (bad ? 1U : 0U));
      EXPECT_EQ(*report.front().path, path.string());
    }
  }
}

// Opening reads a batch of shards at a time, and ends after the one with the first error.
TEST_F(CheckModel, ReportsAnErrorBeforeTheSumOfTheHeadersOfALaterBatch) {
  constexpr std::size_t kShards = 300;
  std::string entries;
  std::size_t header_bytes = 0;
  for (std::size_t i = 0; i < kShards; ++i) {
    const std::string tensor = formatted("t{:03}", i);
    const std::string name = tensor + ".safetensors";
    const std::string bytes = model(entry(tensor, 0), 4, 'x');
    put(name, i == 0 ? format::file_front("{]") : bytes);
    entries += (i == 0 ? "" : ",") + claim(tensor, name);
    header_bytes = bytes.size() - 8 - 4;
  }
  put_index(entries);
  OpenOptions options;
  options.max_headers_bytes = (kShards - 10) * header_bytes;
  EXPECT_EQ(agree_on(index(), options).status, Status::json);
  EXPECT_EQ(check(index().c_str(), options).back().fault.status, Status::header_size);
  options.max_headers_bytes = 10 * header_bytes;  // of the first batch
  const Report report = check(index().c_str(), options);
  EXPECT_EQ(report.front().fault.status, Status::header_size);
  EXPECT_NE(report.back().fault.status, Status::header_size);
}

// After ten shards with a thousand errors each, the eleventh is not read.
TEST_F(CheckModel, ReportsAtMostTenThousandErrors) {
  std::string tensors;
  for (std::size_t i = 0; i < 1000; ++i) {
    tensors += formatted(R"(,"t{}":{{"dtype":"U7","shape":[1],"data_offsets":[{},{}]}})", i, i, i + 1);
  }
  std::string entries;
  for (std::size_t i = 1; i <= 11; ++i) {
    const std::string name = formatted("s{:02}.safetensors", i);
    put(name, model(tensors, 1000, 'x'));
    entries += (i == 1 ? "" : ",") + claim(name, name);
  }
  put_index(entries);
  const Report report = check(index().c_str(), {});
  ASSERT_EQ(report.size(), 10'001U);
  EXPECT_EQ(report.back().fault.message, "more than 10000 findings: shards after 's10.safetensors' were not checked");

  tensors += R"(,"one more":{"dtype":"U7","shape":[1],"data_offsets":[1000,1001]})";
  put("one.safetensors", model(tensors, 1001, 'x'));
  const Report of_one = check((folder / "one.safetensors").string().c_str(), {});
  ASSERT_EQ(of_one.size(), 1001U);
  EXPECT_NE(of_one.front().fault.offset, kNowhere);
  EXPECT_EQ(of_one.back().fault.message, "more than 1000 findings; the rest is omitted");
  EXPECT_EQ(of_one.back().fault.offset, kNowhere);
}

TEST_F(CheckModel, ComparesNoNamesOfAnInvalidShard) {
  put_index(claim("a", kShard1) + "," + claim("c", kShard2));
  put(kShard2, model(entry("a", 0), 3, 'y'));
  for (const Finding& finding : check(index().c_str(), {}))
    EXPECT_EQ(finding.fault.message.find("in two shards"), std::string::npos) << finding.fault.message;
}

TEST_F(CheckModel, ReportsAtMostAThousandErrorsOfAnIndex) {
  put("a.safetensors", model(entry("a", 0) + entry("b", 4), 8, 'x'));
  std::string entries = claim("a", "a.safetensors");  // that 'b' is not listed comes after the errors of the index
  for (std::size_t i = 0; i < 1020; ++i) {
    const std::string name = formatted("absent{:04}.safetensors", i);
    entries += "," + claim(name, name);
  }
  put("faulty.safetensors", model(R"("f":{"dtype":"?","shape":[],"data_offsets":[0,4]},)", 4, 'x'));
  put_index(entries + "," + claim("f", "faulty.safetensors"));  // no longer checked
  const Report report = check(index().c_str(), {});
  ASSERT_EQ(report.size(), 1001U);
  EXPECT_EQ(report.back().fault.message, "more than 1000 findings; the rest is omitted");
}

// After 1,000 notes, only the first error is added.
TEST_F(CheckModel, ReportsAnErrorAfterAThousandNotes) {
  std::string tensors;
  std::size_t at = 0;
  for (; at < 4 * 1200; at += 4) tensors += entry(formatted("t{:04}", at), at);
  put(kShard2, model(tensors + entry("a", at) + entry("b", at + 4), at + 8, 'y'));  // unlisted, and in the first shard
  put_index(claim("a", kShard1) + "," + claim("t0000", kShard2));
  EXPECT_NE(agree_on(index(), {}).message.find("'a' is in two shards"), std::string::npos);
  const Report report = check(index().c_str(), {});
  EXPECT_EQ(std::ranges::count_if(report, [](const Finding& of) { return of.path->ends_with(kShard2); }), 1002);
  EXPECT_EQ(count_of("more than 1000 findings; the rest is omitted", report), 1);
}

TEST_F(CheckModel, ReportsNoTotalSizeThatIsRightOrOfAnInvalidIndex) {
  for (const std::string& text :
       {std::string(kGood), std::string(R"({"metadata":{"total_size":1},"weight_map":[]})")}) {
    put("model.safetensors.index.json", text);
    for (const Finding& finding : check(index().c_str(), {})) {
      EXPECT_EQ(finding.fault.message.find("total_size"), std::string::npos) << finding.fault.message;
    }
  }
}

TEST_F(CheckModel, NotesWhatStrictRulesRefuseOnlyForFilesOfTheStandard) {
  put("spaced.safetensors", format::file_front(" {}"));
  const std::string path = (folder / "spaced.safetensors").string();
  OpenOptions reference;
  reference.header.rules = format::Rules::reference;
  EXPECT_GT(check(path.c_str(), {}).size(), check(path.c_str(), reference).size());
}

TEST_F(CheckModel, ReportsAShardWithALongNameAsOpeningDoes) {
  const std::string name = std::string(120, 'n') + ".safetensors";
  put_index(claim("a", name));
  EXPECT_EQ(agree_on(index(), {}).status, Status::shard);  // missing
  put(name, format::file_front("{]"));
  EXPECT_EQ(agree_on(index(), {}).status, Status::json);
}

TEST_F(CheckModel, ReportsATensorThatTheIndexListsTwiceOnce) {
  const struct {
    std::string entries;
    Status status;
  } cases[] = {{claim("a", kShard1) + "," + claim("a", kShard1) + "," + claim("a", kShard1), Status::duplicate},
               {claim("x", kShard1) + "," + claim("a", kShard1) + "," + claim("x", kShard1), Status::shard}};
  for (const auto& [entries, status] : cases) {
    put_index(entries + "," + claim("b", kShard1) + "," + claim("c", kShard2));
    EXPECT_EQ(agree_on(index(), {}).status, status);
    const Report report = check(index().c_str(), {});
    EXPECT_EQ(std::ranges::count_if(report, [](const Finding& finding) { return !finding.is_note; }), 1) << entries;
  }
}

// Every kind of error, in models with several errors.
TEST_F(CheckModel, AgreesWithOpeningOnModelsWithSeveralErrors) {
  std::mt19937 random(1);
  const auto one_of = [&random](std::size_t n) { return random() % n; };
  std::size_t errors = 0;
  for (int round = 0; round < 150; ++round) {
    std::vector<std::string> shards;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string& name = shards.emplace_back(formatted("s{}.safetensors", i));
      fs::remove(folder / name);
      std::string tensors;
      std::size_t bytes = 0;
      for (std::size_t n = one_of(4); n > 0; --n, bytes += 4) {
        tensors += entry(std::string(1, static_cast<char>('a' + 3 * one_of(8) / 2)), bytes);
      }
      if (one_of(10) != 0) put(name, model(tensors, bytes + (one_of(10) == 0 ? 1 : 0), 'z'));
    }
    if (one_of(10) == 0) shards.push_back("./s1.safetensors");
    std::string entries;
    for (std::size_t n = 1 + one_of(8); n > 0; --n) {
      entries += (entries.empty() ? "" : ",") +
                 claim(std::string(1, static_cast<char>('a' + one_of(12))), shards[one_of(shards.size())]);
    }
    put_index(entries);
    for (OpenOptions mode : every_mode()) {
      SCOPED_TRACE(formatted("round {}: {}", round, entries));
      mode.threads = 1;
      if (one_of(4) == 0) mode.max_headers_bytes = 250;
      errors += agree_on(index(), mode).status == Status::ok ? 0 : 1;
    }
  }
  EXPECT_GT(errors, 300U);
}

}  // namespace
}  // namespace st::core::check_test
