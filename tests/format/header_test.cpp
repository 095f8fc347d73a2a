// From bytes to a checked table: what is read before anything is allocated, and that nothing outside is touched.
// SPDX-License-Identifier: Apache-2.0
#include "format/header.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace st::format {
namespace {

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i));
  return file.append(rest);
}

// The status, or nothing where it is accepted.
template <class Body>
std::optional<Status> status_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.status;
  }
  return std::nullopt;
}

// ---- the first bytes --------------------------------------------------------------------------------------------------------

TEST(Measure, NothingIsBelievedThatTheFileCannotHold) {
  struct Case {
    std::uint64_t length;
    std::uint64_t file_size;
    std::uint64_t limit;
    std::optional<Status> status;
  };
  const Case cases[] = {
      {2, 10, kMaxHeaderBytes, {}},
      {2, 9, kMaxHeaderBytes, Status::truncated},
      {2, UINT64_MAX, kMaxHeaderBytes, {}},
      {100'000'000, 100'000'008, kMaxHeaderBytes, {}},
      {100'000'000, 100'000'007, kMaxHeaderBytes, Status::truncated},
      {100'000'001, 100'000'009, kMaxHeaderBytes, Status::header_size},
      {100'000'001, UINT64_MAX, UINT64_MAX, Status::header_size},
      {100'000'001, 20, kMaxHeaderBytes, Status::header_size},
      {UINT64_MAX, UINT64_MAX, kMaxHeaderBytes, Status::header_size},
      {UINT64_MAX - 7, UINT64_MAX, UINT64_MAX, Status::header_size},
      {1000, 2000, 1000, {}},
      {1001, 2000, 1000, Status::header_size},
  };
  for (const Case& given : cases) {
    const std::string prefix = with_length(given.length, "{                ");
    HeaderOptions options;
    options.max_bytes = given.limit;
    std::uint64_t length = 0;
    const auto status = status_of([&] { length = measure(prefix, given.file_size, options); });
    EXPECT_EQ(status, given.status) << given.length << " of " << given.file_size;
    EXPECT_TRUE(status || length == given.length);
  }
}

TEST(Measure, FewerThanEightBytes) {
  for (std::size_t size = 0; size < 8; ++size) {
    EXPECT_EQ(status_of([&] { measure(std::string(size, '\2'), size, {}); }), Status::truncated) << size;
  }
}

// ---- the header --------------------------------------------------------------------------------------------------------------

// A header that ends, with its padding, where readable memory ends.
class GuardedHeader {
 public:
  explicit GuardedHeader(std::string_view header) : size_(header.size()) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    room_ = (size_ + kPadding + page - 1) / page * page;
    memory_ =
        static_cast<char*>(mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    whole_ = room_ + page;
    mprotect(memory_ + room_, page, PROT_NONE);
    std::memcpy(text().data(), header.data(), size_);
  }
  GuardedHeader(const GuardedHeader&) = delete;
  GuardedHeader& operator=(const GuardedHeader&) = delete;
  ~GuardedHeader() { munmap(memory_, whole_); }

  std::span<char> text() { return {memory_ + room_ - kPadding - size_, size_}; }

 private:
  std::size_t size_;
  std::size_t room_ = 0;
  std::size_t whole_ = 0;
  char* memory_ = nullptr;
};

TEST(Header, NothingIsReadBeyondThePadding) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ST_TESTS_DIR "/conformance/files")) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(stream), {}};
    for (const Rules rules : {Rules::standard, Rules::strict, Rules::reference}) {
      HeaderOptions options;
      options.rules = rules;
      options.unknown_dtypes = true;
      std::uint64_t length = 0;
      if (status_of([&] { length = measure(std::string_view(file).substr(0, 64), file.size(), options); })) continue;
      GuardedHeader header(std::string_view(file).substr(8, length));
      Table table(std::pmr::new_delete_resource());
      status_of([&] { read_header(header.text(), file.size(), options, table); });
      ++read;
    }
  }
  EXPECT_GT(read, 800U);
}

// A truncated file has been cut at any byte.
TEST(Header, EveryPrefixOfAHeaderIsRefused) {
  const std::string_view header =
      R"({"__metadata__":{"k\n":"\ud83d\ude00"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8],"x":[1.5e3,{"y":null}]}})";
  for (std::size_t n = 0; n <= header.size(); ++n) {
    GuardedHeader cut(header.substr(0, n));
    Table table(std::pmr::new_delete_resource());
    const auto status = status_of([&] { read_header(cut.text(), 8 + n + 8, {}, table); });
    EXPECT_EQ(status, n == header.size() ? std::nullopt : std::optional(Status::json)) << header.substr(0, n);
  }
}

TEST(Header, TheTextIsRestored) {
  const std::string_view headers[] = {
      "{}",
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}      )",
      R"({"__metadata__":{"":"","k":"v","e\"":"\\","k2":""},"":{"shape":[],"data_offsets":[0,1],"dtype":"U8"}})",
      R"(  {"a\u0000":{"dtype":"F\u00332","shape":[0],"data_offsets":[0,0],"x":"\"","":""}})",
      R"({"a":{"dtype":"odd","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"o\u0064d","shape":[0],"data_offsets":[0,0]}})",
      R"({"a":["U8",[1],[0,1]],"a":["U8",[1],[0,1]],"b":{"dtype":{"U8":null},"shape":[0],"data_offsets":[1,1]}})",
  };
  for (const std::string_view text : headers) {
    for (const Rules rules : {Rules::standard, Rules::reference}) {
      GuardedHeader header(text);
      Table table(std::pmr::new_delete_resource());
      HeaderOptions options;
      options.rules = rules;
      options.unknown_dtypes = true;
      const std::size_t data = text.find("[0,1]") != std::string_view::npos ? 1 : 0;
      if (status_of([&] { read_header(header.text(), 8 + text.size() + data, options, table); })) {
        EXPECT_EQ(rules, Rules::standard) << text;
        continue;
      }
      std::string raw(text.size(), '?');
      restore_header(header.text(), table, raw.data());
      EXPECT_EQ(raw, text);
    }
  }
}

TEST(Header, ManyTensorsInAnyOrderOfTheText) {
  constexpr std::size_t kTensors = 5000;
  std::string header = "{";
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::size_t n = i * 2741 % kTensors;  // prime to 5000: each once
    header += fmt::format("{}\"t{}\":{{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[{},{}]}}", i == 0 ? "" : ",", n,
                          3 * n, 3 * n + 3);
  }
  header += '}';
  GuardedHeader guarded(header);
  Table table(std::pmr::new_delete_resource());
  ASSERT_EQ(status_of([&] { read_header(guarded.text(), 8 + header.size() + 3 * kTensors, {}, table); }), std::nullopt);
  ASSERT_EQ(table.tensors.size(), kTensors);
  for (std::size_t n = 0; n < kTensors; ++n) {
    const std::string name = fmt::format("t{}", n);
    ASSERT_EQ(table.tensors[n].name(), name);
    ASSERT_EQ(table.index.find(table.tensors.data(), name), n);
  }
  EXPECT_EQ(table.index.find(table.tensors.data(), "t5000"), table.index.kNone);
}

TEST(Header, EveryPlaceAroundABlockOfSixtyFourBytes) {
  for (std::size_t before = 0; before < 140; ++before) {
    const std::string name(before, 'n');
    const std::string header = "{\"" + name + "\\\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    GuardedHeader guarded(header);
    Table table(std::pmr::new_delete_resource());
    ASSERT_EQ(status_of([&] { read_header(guarded.text(), 8 + header.size() + 1, {}, table); }), std::nullopt);
    EXPECT_EQ(table.tensors[0].name(), name + '"');
  }
}

}  // namespace
}  // namespace st::format
