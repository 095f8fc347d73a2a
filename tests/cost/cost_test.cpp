// Costs are linear: an input of four times the size takes at most four times the work and memory, or slightly more if
// names are sorted.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/check.hpp"
#include "core/checkpoint.hpp"
#include "core/edit.hpp"
#include "core/writer.hpp"
#include "counted.hpp"
#include "format/table.hpp"

namespace st::cost {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFew = 2000;
constexpr std::size_t kTimes = 4;
constexpr double kMost = 1.25 * kTimes;  // log 8000 / log 2000 is 1.18

// Far from sorted, and with a common prefix, like real tensor names.
std::string name_of(std::size_t i) { return formatted("model.layers.{:05}.{}", i * 7919 % 99'991, i); }

std::string with_length(const std::string& header, std::size_t data = 0) {
  std::string file(format::kLengthBytes, '\0');
  format::store_length(file.data(), header.size());
  return file + header + std::string(data, 'x');
}

std::string json_metadata(std::size_t n, const char* prefix) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += formatted(R"({}"{}{}":"value")", i == 0 ? "" : ",", prefix, name_of(i));
  return text;
}

std::string file_of_tensors(std::size_t n) {
  std::string header = "{";
  for (std::size_t i = 0; i < n; ++i) {
    header += formatted(R"({}"{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i == 0 ? "" : ",", name_of(i),
                        i, i + 1);
  }
  return with_length(header + "}", n);
}

// All at one offset, so only their names order them.
std::string file_of_empty_tensors(std::size_t n) {
  std::string header = "{";
  for (std::size_t i = 0; i < n; ++i) {
    header += formatted(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", name_of(i));
  }
  return with_length(header + "}");
}

std::string file_of_metadata(std::size_t n) { return with_length("{\"__metadata__\":{" + json_metadata(n, "") + "}}"); }

std::string file_of_one_shape(std::size_t n) {
  std::string dims = "1";
  for (std::size_t i = 1; i < n; ++i) dims += ",1";
  return with_length(R"({"t":{"dtype":"U8","shape":[)" + dims + R"(],"data_offsets":[0,1]}})", 1);
}

// The shapes of the first `bad` tensors have an element, but their data is empty.
std::string bintensors_of_tensors(std::size_t n, std::size_t bad) {
  std::string header("\0\xFC", 2);
  for (std::size_t i = 0; i < 4; ++i) header += static_cast<char>(n >> 8 * i & 0xFF);
  for (std::size_t i = 0; i < n; ++i) {
    const std::string name = name_of(i);
    header += static_cast<char>(name.size()) + name + std::string(i < bad ? "\1\1\1\0\0" : "\1\1\0\0\0", 5);
  }
  return with_length(header + std::string((8 - header.size() % 8) % 8, ' '));
}

std::string bintensors_of_empty_tensors(std::size_t n) { return bintensors_of_tensors(n, 0); }

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "costXXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for temporary files");
    path_ = pattern;
  }
  Folder(Folder&&) = delete;
  ~Folder() { fs::remove_all(path_); }

  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  std::string path(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

core::OpenOptions options() {
  core::OpenOptions options;
  options.threads = 1;
  options.allocator = counted_allocator();
  return options;
}

// Opens, and finds everything by its name.
void open_and_find(const std::string& path) {
  const core::CheckpointPtr file = core::Checkpoint::open(path.c_str(), options());
  for (const format::MetadataPair& pair : file->metadata()) EXPECT_NE(file->metadata(pair.key), nullptr);
  for (std::size_t i = 0; i < file->count_tensors(); ++i) EXPECT_NE(file->tensor(file->tensor_at(i)->name()), nullptr);
}

template <std::string (*Make)(std::size_t n)>
Cost of_file(std::size_t n) {
  const Folder folder;
  const std::string path = folder.put("a.safetensors", Make(n));
  return cost_of([&] { open_and_find(path); });
}

Cost of_metadata_of_index_and_shard(std::size_t n) {
  const Folder folder;
  folder.put("a.safetensors", with_length("{\"__metadata__\":{" + json_metadata(n, "shard.") + "}," +
                                              R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                          1));
  const std::string path = folder.put("model.safetensors.index.json", "{\"metadata\":{" + json_metadata(n, "index.") +
                                                                          R"(},"weight_map":{"t":"a.safetensors"}})");
  return cost_of([&] { open_and_find(path); });
}

Cost of_weight_map(std::size_t n) {
  const Folder folder;
  folder.put("a.safetensors", file_of_tensors(n));
  std::string map;
  for (std::size_t i = 0; i < n; ++i) map += formatted(R"({}"{}":"a.safetensors")", i == 0 ? "" : ",", name_of(i));
  const std::string path = folder.put("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  return cost_of([&] { open_and_find(path); });
}

std::string index_of_absent_shards(std::size_t n) {
  std::string map;
  for (std::size_t i = 0; i < n; ++i) {
    map += formatted(R"({}"{}":"model-{:07}-of-1000000.safetensors")", i == 0 ? "" : ",", i, i * 7919 % 999'983);
  }
  return "{\"weight_map\":{" + map + "}}";
}

Cost of_absent_shards(std::size_t n) {
  const Folder folder;
  const std::string path = folder.put("model.safetensors.index.json", index_of_absent_shards(n));
  return cost_of([&] { EXPECT_THROW(core::Checkpoint::open(path.c_str(), options()), Error); });
}

Cost of_writing_metadata(std::size_t n) {
  const Folder folder;
  return cost_of([&] {
    core::Writer writer;
    for (std::size_t i = 0; i < n; ++i) writer.set_metadata(name_of(i), "value");
    writer.begin(folder.path("a.safetensors").c_str(), {});
    writer.finish();
  });
}

Cost of_writing_tensors(std::size_t n) {
  const Folder folder;
  const std::uint64_t one = 1;
  return cost_of([&] {
    core::Writer writer;
    for (std::size_t i = 0; i < n; ++i) writer.add(name_of(i), Dtype::U8, {&one, 1}, "x");
    writer.begin(folder.path("a.safetensors").c_str(), {});
    writer.finish();
  });
}

Cost of_putting_tensors(std::size_t n) {
  const Folder folder;
  const std::uint64_t one = 1;
  return cost_of([&] {
    core::Writer writer;
    for (std::size_t i = 0; i < n; ++i) writer.add(name_of(i), Dtype::U8, {&one, 1}, nullptr);
    writer.begin(folder.path("a.safetensors").c_str(), {});
    for (std::size_t i = 0; i < n; ++i) writer.put(i, 0, "x", 1);
    writer.finish();
  });
}

// No shard exists. The first one decides the error, and no memory is allocated for the others.
TEST(Cost, AnIndexOfAbsentShardsTakesLittleMoreThanItsText) {
  constexpr std::size_t kShards = 20'000;
  const std::size_t text = index_of_absent_shards(kShards).size();
  const Cost cost = of_absent_shards(kShards);
  EXPECT_LT(cost.bytes, 4 * text) << formatted("{} bytes of {}", cost.bytes, text);
  EXPECT_LT(cost.work, 6 * text) << formatted("{} blocks for {} bytes", cost.work, text);
}

Cost of_spelled_names(const char* before, const char* after) {
  const Folder folder;
  std::string map;
  for (std::size_t i = 0; i < 20'000; ++i) {
    map += formatted("{}\"{}\":\"{}{}{}\"", i == 0 ? "" : ",", i, before, i, after);
  }
  const std::string path = folder.put("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  return cost_of([&] { EXPECT_THROW(core::Checkpoint::open(path.c_str(), options()), Error); });
}

TEST(Cost, RedundantPartsOfShardNamesTakeNoMemory) {
  const auto usual = static_cast<double>(of_spelled_names("", "").bytes);
  EXPECT_LT(static_cast<double>(of_spelled_names("./", "").bytes), 1.1 * usual);
  EXPECT_LT(static_cast<double>(of_spelled_names("a/./", "").bytes), 1.1 * usual);
  EXPECT_LT(static_cast<double>(of_spelled_names("", "//x").bytes), 1.1 * usual);
}

// Whatever the names have in common.
TEST(Cost, RedundantPartsOfShardNamesTakeLittleTime) {
  const auto usual = static_cast<double>(of_spelled_names("a/a/a/a/a/a/a/a/", "").work);
  EXPECT_LT(static_cast<double>(of_spelled_names("a/a/a/a/./a/a/a/a/", "").work), 2 * usual);
}

// Nor are shards opened whose errors would not be reported.
TEST(Cost, ACheckOfAbsentShardsTakesLittleMoreThanItsText) {
  const Folder folder;
  const std::string text = index_of_absent_shards(20'000);
  const std::string path = folder.put("model.safetensors.index.json", text);
  const Cost cost = cost_of([&] { core::check(path.c_str(), options()); });
  EXPECT_LT(cost.work, 6 * text.size()) << formatted("{} blocks for {} bytes", cost.work, text.size());
}

// Names that collide in a table with seed 0, or similar names that do not.
std::vector<std::string> hostile_names(std::size_t n, bool collide) {
  std::vector<std::string> names;
  for (std::uint64_t i = 0; names.size() < n; ++i) {
    const std::string name = formatted("{:016x}", i * 0x9E3779B97F4A7C15);
    const auto hash = static_cast<std::uint32_t>(format::hash_name(name, 0));
    if (!collide || hash < (std::uint32_t{1} << 22)) names.push_back(name);
  }
  return names;
}

std::string file_of_names(const std::vector<std::string>& names) {
  std::string header;
  for (const std::string& name : names) {
    header +=
        formatted(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", header.empty() ? "{" : ",", name);
  }
  return with_length(header + "}");
}

Cost of_reading_names(const std::vector<std::string>& names) {
  const Folder folder;
  const std::string path = folder.put("a.safetensors", file_of_names(names));
  return cost_of([&] { open_and_find(path); });
}

Cost of_checking_names(const std::vector<std::string>& names) {
  const Folder folder;
  const std::string path = folder.put("a.safetensors", file_of_names(names));
  return cost_of([&] { core::check(path.c_str(), options()); });
}

Cost of_editing_names(const std::vector<std::string>& names) {
  const Folder folder;
  const std::string path = folder.put("a.safetensors", file_of_names(names));
  const core::MetadataChange change{"key", "value"};
  return cost_of([&] { core::edit_metadata(path.c_str(), {&change, 1}, {}); });
}

Cost of_writing_names(const std::vector<std::string>& names) {
  const Folder folder;
  const std::uint64_t none = 0;
  return cost_of([&] {
    core::Writer writer;
    for (const std::string& name : names) writer.add(name, Dtype::U8, {&none, 1}, nullptr);
    writer.begin(folder.path("a.safetensors").c_str(), {});
    writer.finish();
  });
}

TEST(Cost, NobodyCanChooseNamesThatCollide) {
  constexpr std::size_t kNames = 1000;
  for (const auto of : {of_reading_names, of_checking_names, of_editing_names, of_writing_names}) {
    const auto usual = static_cast<double>(of(hostile_names(kNames, false)).work);
    EXPECT_LT(static_cast<double>(of(hostile_names(kNames, true)).work), 1.5 * usual);
  }
}

// One entry with a long name and more errors than are reported, and a thousand entries with long names and two errors
// each.
TEST(Cost, ACheckOfFaultsTakesAFewTimesTheMemoryOfTheFile) {
  std::string values = "-1";
  for (std::size_t i = 0; i < format::kMostFindings; ++i) values += ",-1";
  const std::string one = R"({")" + std::string(1'000'000, 'n') + R"(":{"dtype":"U8","shape":[)" + values + "]}}";
  std::string many = "{";
  for (std::size_t i = 0; i < format::kMostFindings; ++i) {
    many += formatted(R"({}"{}{:04}":{{"dtype":"X","shape":[-1],"data_offsets":[0,1]}})", i == 0 ? "" : ",",
                      std::string(1000, 'n'), i);
  }
  const Folder folder;
  for (const std::string& header : {one, many + "}"}) {
    const std::string file = with_length(header);
    const std::string path = folder.put("a.safetensors", file);
    core::Report report;
    const Cost cost = cost_of([&] { report = core::check(path.c_str(), options()); });
    EXPECT_EQ(report.size(), format::kMostFindings + 1);
    EXPECT_LT(cost.bytes, 6 * file.size()) << formatted("{} bytes of {}", cost.bytes, file.size());
  }
}

// The message about each error quotes the name of its tensor.
TEST(Cost, ANameThatIsNotUtf8IsQuotedAsQuicklyAsAnother) {
  const Folder folder;
  const auto of_check = [&](char letter) {
    std::string values = "-1";
    for (std::size_t i = 1; i < format::kMostFindings; ++i) values += ",-1";
    const std::string header = R"({")" + std::string(100'000, letter) + R"(":{"dtype":"U8","shape":[)" + values + "]}}";
    const std::string path = folder.put("a.safetensors", with_length(header));
    return static_cast<double>(cost_of([&] { core::check(path.c_str(), options()); }).work);
  };
  EXPECT_LT(of_check('\x80'), 2 * of_check('n'));
}

TEST(Cost, FaultsThatAreNotToldTakeNoMoreThanGoodTensors) {
  constexpr std::size_t kTensors = 20'000;
  const Folder folder;
  const auto of_check = [&](std::size_t bad) {
    const std::string path = folder.put("a.bt", bintensors_of_tensors(kTensors, bad));
    return static_cast<double>(cost_of([&] { core::check(path.c_str(), options()); }).work);
  };
  const double told = of_check(format::kMostFindings + 1);
  EXPECT_LT(of_check(kTensors), 1.01 * told);
}

TEST(Cost, ALargeTensorIsWrittenFromWhereItLies) {
  const Folder folder;
  const std::string data(std::size_t{8} << 20, 'x');
  const std::uint64_t size = data.size();
  const Cost cost = cost_of([&] {
    core::Writer writer;
    writer.add("small", Dtype::U8, {&size, 0}, data.data());
    writer.add("large", Dtype::U8, {&size, 1}, data.data());
    writer.begin(folder.path("a.safetensors").c_str(), {});
    writer.finish();
  });
  EXPECT_LT(cost.bytes, data.size() / 2);
}

struct Shaped {
  const char* dtype;
  const char* shape;
  std::size_t bytes = 48;
};

// The i-th tensor has the i-th of these shapes, in turns.
double work_of_entries(std::string_view entry, const std::vector<Shaped>& shapes) {
  std::string header = "{";
  std::size_t at = 0;
  for (std::size_t i = 0; i < kFew; ++i) {
    const auto& [dtype, shape, bytes] = shapes[i % shapes.size()];
    header +=
        (i == 0 ? "" : ",") + fmt::format(fmt::runtime(entry), fmt::arg("name", name_of(i)), fmt::arg("dtype", dtype),
                                          fmt::arg("shape", shape), fmt::arg("begin", at), fmt::arg("end", at + bytes));
    at += bytes;
  }
  const Folder folder;
  const std::string path = folder.put("a.safetensors", with_length(header + "}", at));
  return static_cast<double>(cost_of([&] { core::Checkpoint::open(path.c_str(), options()); }).work);
}

constexpr std::string_view kUsualEntry =
    R"("{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{begin},{end}]}})";

TEST(Cost, AnEntryCostsTheSameNextToAnyOther) {
  const double same = work_of_entries(kUsualEntry, {{"F32", "3,4"}});
  EXPECT_LT(work_of_entries(kUsualEntry, {{"F32", "3,4"}, {"F8_E4M3", "6,8"}}), 1.05 * same);
  EXPECT_LT(work_of_entries(kUsualEntry, {{"F32", "12"}, {"BF16", "2,3,4"}, {"I64", "1,6"}, {"F16", "24"}}),
            1.1 * same);
  EXPECT_LT(work_of_entries(kUsualEntry, {{"F8_E4M3FNUZ", "6,8"}}), 1.05 * same);  // longer than eight bytes
}

// An escape in its name keeps an entry from the shortcut.
TEST(Cost, TheShortcutForUsualEntriesIsTaken) {
  const double otherwise = work_of_entries(
      R"("\u0061{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{begin},{end}]}})", {{"F32", "3,4"}});
  EXPECT_LT(work_of_entries(kUsualEntry, {{"F32", "3,4"}}), 0.65 * otherwise);
}

// White space before a field's colon keeps an entry from the shortcut, and costs nothing else.
TEST(Cost, TheShortcutIsTakenForScalarsLongNumbersAndOtherOrders) {
  const auto share = [](std::string entry, const Shaped& shaped) {
    const double taken = work_of_entries(entry, {shaped});
    return taken / work_of_entries(entry.insert(entry.rfind("\":") + 1, " "), {shaped});
  };
  EXPECT_LT(share(std::string(kUsualEntry), {"F32", "", 4}), 0.85);
  EXPECT_LT(share(std::string(kUsualEntry), {"F32", "0,1234,12345678,1234567890123456", 0}), 0.85);
  EXPECT_LT(share(R"("{name}":{{"data_offsets":[{begin},{end}],"dtype":"{dtype}","shape":[{shape}]}})", {"F32", "3,4"}),
            0.85);
}

TEST(Cost, OtherOrdersAndWhiteSpaceCostLittleMore) {
  const double usual = work_of_entries(kUsualEntry, {{"F32", "3,4"}});
  const char* const others[] = {
      R"("{name}":{{"data_offsets":[{begin},{end}],"dtype":"{dtype}","shape":[{shape}]}})",
      R"("{name}":{{"shape":[{shape}],"data_offsets":[{begin},{end}],"dtype":"{dtype}"}})",
      R"("{name}": {{"dtype": "{dtype}", "shape": [{shape}], "data_offsets": [{begin}, {end}]}})",
      // In parentheses, or clang 14 takes the two lines for a forgotten comma.
      ("\n \"{name}\": {{\n  \"dtype\": \"{dtype}\",\n  \"shape\": [\n   {shape}\n  ],\n"
       "  \"data_offsets\": [\n   {begin},\n   {end}\n  ]\n }}"),
  };
  for (const char* const other : others) EXPECT_LT(work_of_entries(other, {{"F32", "3,4"}}), 1.5 * usual) << other;
}

struct Case {
  const char* name;
  Cost (*of)(std::size_t n);
};

const Case kCases[] = {
    {"tensors of a file", of_file<file_of_tensors>},
    {"tensors of a file at one place", of_file<file_of_empty_tensors>},
    {"metadata of a file", of_file<file_of_metadata>},
    {"dimensions of a shape", of_file<file_of_one_shape>},
    {"tensors of a bintensors file", of_file<bintensors_of_empty_tensors>},
    {"metadata of an index beside its shard's", of_metadata_of_index_and_shard},
    {"tensors of an index", of_weight_map},
    {"shards of an index that are not there", of_absent_shards},
    {"metadata written", of_writing_metadata},
    {"tensors written", of_writing_tensors},
    {"tensors put one by one", of_putting_tensors},
};

TEST(Cost, GrowsNoFasterThanTheInput) {
  for (const Case& one : kCases) {
    one.of(kFew);  // allocations that happen only once
    const Cost few = one.of(kFew);
    const Cost many = one.of(kTimes * kFew);
    const double work = static_cast<double>(many.work) / static_cast<double>(few.work);
    const double bytes = static_cast<double>(many.bytes) / static_cast<double>(few.bytes);
    const std::string figures =
        formatted("{}: work {} -> {} ({} times), bytes {} -> {} ({} times)", one.name, few.work, many.work,
                  std::to_string(work), few.bytes, many.bytes, std::to_string(bytes));
    RecordProperty(one.name, figures);
    EXPECT_GT(few.work, kFew) << figures;  // it is being counted
    EXPECT_GT(few.bytes, kFew) << figures;
    EXPECT_LT(work, kMost) << figures;
    EXPECT_LT(bytes, kMost) << figures;
  }
}

}  // namespace
}  // namespace st::cost
