// Every bintensors file of the corpus gets the verdict of the original, and the status for the original's error, with
// each way of opening it. The worked example equals the format's description byte for byte.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "ways.hpp"

namespace conformance {
namespace {

const std::string kFolder = ST_CONFORMANCE_DIR "/bintensors/";
constexpr std::size_t kFiles = 23;

const std::map<std::string, std::set<std::string>> kStatuses{
    {"-", {"ST_OK"}},
    {"HeaderTooSmall", {"ST_ERR_TRUNCATED"}},
    {"DecoderError", {"ST_ERR_SCHEMA", "ST_ERR_UTF8", "ST_ERR_DTYPE"}},
    {"ValidationMismatch", {"ST_ERR_DUPLICATE"}},
    {"InvalidOffset", {"ST_ERR_OFFSETS"}},
    {"ValidationOverflow", {"ST_ERR_OVERFLOW"}},
    {"TensorInvalidInfo", {"ST_ERR_TENSOR_SIZE"}},
    {"MetadataIncompleteBuffer", {"ST_ERR_COVERAGE"}},
};

struct Close {
  void operator()(st_file* file) const { st_free(file); }
};
using File = std::unique_ptr<st_file, Close>;

File open(const std::string& path) {
  st_file* file = nullptr;
  st_error err = ST_INIT(st_error);
  EXPECT_EQ(st_open(path.c_str(), nullptr, &file, &err), ST_OK) << path << ": " << err.message;
  return File(file);
}

std::vector<std::vector<std::string>> rows() { return rows_of(kFolder + "expected.tsv"); }

TEST(Bintensors, TheVerdictAndTheStatusAreThoseOfTheOriginal) {
  ASSERT_EQ(rows().size(), kFiles);
  for (const auto& row : rows()) {
    const std::string path = kFolder + row[0];
    const std::string bytes = bytes_of(path);
    const Outcome first = kWays[0].open(path, bytes, 0);
    EXPECT_EQ(first.status == ST_OK, row[1] == "ok") << row[0] << ": " << first.message;
    EXPECT_TRUE(kStatuses.at(row[2]).contains(st_status_name(first.status))) << row[0] << ": " << first.message;
    for (const Way& way : kWays) {
      const Outcome outcome = way.open(path, bytes, 0);
      EXPECT_TRUE(outcome == first) << row[0] << ", " << way.name << ": " << outcome.message << ", not "
                                    << first.message;
    }
  }
}

TEST(Bintensors, TheReferenceOfSafetensorsReadsNone) {
  for (const auto& row : rows()) {
    EXPECT_NE(open_memory({}, bytes_of(kFolder + row[0]), ST_OPEN_REFERENCE).status, ST_OK) << row[0];
  }
}

TEST(Bintensors, StrictRulesRefuseWhatNoWriterMakes) {
  EXPECT_EQ(open_memory({}, bytes_of(kFolder + "worked_two_tensors.bt"), ST_OPEN_STRICT).status, ST_OK);
  EXPECT_EQ(open_memory({}, bytes_of(kFolder + "worked_two_tensors_alpha.bt"), ST_OPEN_STRICT).status, ST_OK);
  EXPECT_EQ(open_memory({}, bytes_of(kFolder + "header_not_multiple_of_8.bt"), ST_OPEN_STRICT).status, ST_ERR_SCHEMA);
}

TEST(Bintensors, TheFormatIsTold) {
  EXPECT_EQ(st_get_format(open(kFolder + "worked_two_tensors.safetensors").get()), ST_FORMAT_SAFETENSORS);
  EXPECT_EQ(st_get_format(open(kFolder + "worked_two_tensors.bt").get()), ST_FORMAT_BINTENSORS);
  EXPECT_EQ(st_get_format(open(kFolder + "worked_two_tensors_alpha.bt").get()), ST_FORMAT_BINTENSORS_OLD);
}

TEST(Bintensors, TheRawHeaderIsWhatTheFileHas) {
  for (const auto& row : rows()) {
    if (row[1] != "ok") continue;
    const std::string bytes = bytes_of(kFolder + row[0]);
    const File file = open(kFolder + row[0]);
    std::size_t size = 0;
    const char* const header = st_get_header(file.get(), 0, &size);
    EXPECT_EQ(std::string(header, size), bytes.substr(8, size)) << row[0];
  }
}

// ---- the worked example: the same two tensors in three files -------------------------------------------------------------

// Elements are little-endian in memory, too, on every machine.
std::uint64_t number_at(const std::vector<unsigned char>& bytes, std::size_t offset, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = size; i-- > 0;) number = number << 8 | bytes[offset + i];
  return number;
}

void expect_worked_example(const st_file* file) {
  ASSERT_EQ(st_count_tensors(file), 2u);
  EXPECT_EQ(st_has_metadata(file), 1);
  ASSERT_EQ(st_count_metadata(file), 1u);
  EXPECT_STREQ(st_get_metadata(file, "format", nullptr), "pt");
  const st_tensor* const bias = st_get_tensor(file, "bias");
  const st_tensor* const weight = st_get_tensor(file, "weight");
  ASSERT_TRUE(bias != nullptr && weight != nullptr);
  EXPECT_EQ(st_get_tensor_at(file, 0), bias);
  EXPECT_EQ(st_tensor_dtype(bias), ST_I64);
  EXPECT_EQ(st_tensor_dtype(weight), ST_F32);
  ASSERT_EQ(st_tensor_rank(weight), 2u);
  EXPECT_EQ(st_tensor_shape(weight)[1], 150u);
  std::vector<unsigned char> bytes(2 * 8);
  EXPECT_EQ(st_tensor_read(bias, bytes.data(), bytes.size(), nullptr), ST_OK);
  EXPECT_EQ(number_at(bytes, 0, 8), 1u);
  EXPECT_EQ(number_at(bytes, 8, 8), UINT64_MAX);  // -1
  bytes.resize(300 * 4);
  EXPECT_EQ(st_tensor_read(weight, bytes.data(), bytes.size(), nullptr), ST_OK);
  for (std::size_t i = 0; i < 300; ++i) {
    const auto bits = static_cast<std::uint32_t>(number_at(bytes, i * 4, 4));
    EXPECT_EQ(std::bit_cast<float>(bits), static_cast<float>(i));
  }
}

TEST(Bintensors, TheWorkedExampleSaysTheSameInEveryFormat) {
  for (const char* const name :
       {"worked_two_tensors.safetensors", "worked_two_tensors.bt", "worked_two_tensors_alpha.bt"}) {
    SCOPED_TRACE(name);
    expect_worked_example(open(kFolder + name).get());
  }
}

void rewrite(const std::string& from, const std::string& to, st_format format) {
  const File file = open(from);
  st_writer* writer = nullptr;
  st_error err = ST_INIT(st_error);
  ASSERT_EQ(st_writer_new(&writer, &err), ST_OK) << err.message;
  EXPECT_EQ(st_writer_copy_metadata(writer, file.get(), &err), ST_OK) << err.message;
  for (std::size_t i = 0; i < st_count_tensors(file.get()); ++i) {
    EXPECT_EQ(st_writer_add_tensor(writer, nullptr, 0, st_get_tensor_at(file.get(), i), &err), ST_OK) << err.message;
  }
  st_write_options options = ST_INIT(st_write_options);
  options.format = format;
  EXPECT_EQ(st_writer_begin(writer, to.c_str(), &options, &err), ST_OK) << err.message;
  EXPECT_EQ(st_writer_finish(writer, &err), ST_OK) << err.message;
  st_writer_free(writer);
}

TEST(Bintensors, TheWorkedExampleIsWrittenByteForByte) {
  const std::string path = testing::TempDir() + "st_worked_example";
  for (const char* const from :
       {"worked_two_tensors.safetensors", "worked_two_tensors.bt", "worked_two_tensors_alpha.bt"}) {
    rewrite(kFolder + from, path, ST_FORMAT_BINTENSORS);
    EXPECT_EQ(bytes_of(path), bytes_of(kFolder + "worked_two_tensors.bt")) << from;
    rewrite(kFolder + from, path, 0);
    EXPECT_EQ(bytes_of(path), bytes_of(kFolder + "worked_two_tensors.safetensors")) << from;
  }
  std::filesystem::remove(path);
}

TEST(Bintensors, TheOlderLayoutIsNotWritten) {
  st_writer* writer = nullptr;
  ASSERT_EQ(st_writer_new(&writer, nullptr), ST_OK);
  st_write_options options = ST_INIT(st_write_options);
  options.format = ST_FORMAT_BINTENSORS_OLD;
  EXPECT_EQ(st_writer_begin(writer, "never_made.bt", &options, nullptr), ST_ERR_UNSUPPORTED);
  st_writer_free(writer);
}

}  // namespace
}  // namespace conformance
