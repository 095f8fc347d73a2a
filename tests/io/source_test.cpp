// Sources that make no system calls: memory, callbacks, and the defaults of every source.
// SPDX-License-Identifier: Apache-2.0
#include "io/source.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace st::io::source_test {
namespace {

constexpr std::uint64_t kOrigin = 1000;

// A part of a larger file; no byte of it can be read.
class BadSource final : public Source {
 public:
  explicit BadSource(bool knows_where) : Source(100), knows_where_(knows_where) {}
  Traits traits() const override {
    Traits traits;
    traits.origin = kOrigin;
    return traits;
  }
  void read_at(std::uint64_t offset, void* /*dst*/, std::size_t /*n*/) const override {
    if (knows_where_) fail_at(Status::read, offset, "no byte {}", offset);
    fail(Status::read, "no byte");
  }

 private:
  bool knows_where_;
};

TEST(Source, AnErrorIsToldWhereItIsInTheWholeFile) {
  for (const bool knows_where : {true, false}) {
    const BadSource source(knows_where);
    const auto reader = source.open_reader(Cache::automatic);
    EXPECT_EQ(reader->alignment(), 1U);
    std::byte got{};
    const Read read{kOrigin + 7, 1, &got};
    try {
      static_cast<void>(reader->read_many(ReadPath::buffered, {&read, 1}, kOrigin + 100));
      ADD_FAILURE() << "read";
    } catch (const Error& error) {
      EXPECT_EQ(error.offset, knows_where ? kOrigin + 7 : kNowhere);
    }
  }
}

void count(void* ctx) { ++*static_cast<int*>(ctx); }

std::string read(const Source& source, std::uint64_t offset, std::size_t n) {
  std::string bytes(n, '?');
  source.read_at(offset, bytes.data(), n);
  return bytes;
}

TEST(MemorySource, IsReleasedOnceWhenItEnds) {
  const std::string bytes = "0123456789";
  int released = 0;
  {
    const auto source = memory_source(bytes.data(), bytes.size(), count, &released);
    EXPECT_EQ(source->size(), 10U);
    EXPECT_EQ(read(*source, 2, 5), "23456");
    EXPECT_EQ(reinterpret_cast<const char*>(source->view()), bytes.data());
    EXPECT_STREQ(source->name(), "");
    EXPECT_FALSE(source->changed_lately());
    EXPECT_EQ(source->lock_out_edits(), nullptr);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(MemorySource, WithoutAReleaseNothingIsCalled) {
  EXPECT_EQ(read(*memory_source("abc", 3, nullptr, nullptr), 1, 2), "bc");
}

TEST(MemorySource, NoBytesMayBeAtNoAddress) {
  const auto source = memory_source(nullptr, 0, nullptr, nullptr);
  EXPECT_EQ(read(*source, 0, 0), "");
  EXPECT_EQ(source->view(), nullptr);
}

TEST(MemorySource, IsCachedWhateverTheCacheIsToDo) {
  const auto source = memory_source("abc", 3, nullptr, nullptr);
  for (const Cache cache : {Cache::automatic, Cache::through, Cache::around, Cache::mapped}) {
    EXPECT_EQ(source->open_reader(cache)->path_for(0, 3), ReadPath::cached);
    EXPECT_EQ(source->open_reader(cache)->memory(), source->view());
  }
}

struct Given {
  std::string bytes;
  int closed = 0;
  std::int32_t code = 0;
};

std::int32_t read_callback(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
  const auto& given = *static_cast<const Given*>(ctx);
  if (given.code == 0) std::memcpy(dst, given.bytes.data() + offset, n);
  return given.code;
}

void close_callback(void* ctx) { ++static_cast<Given*>(ctx)->closed; }

TEST(CallbackSource, AreAskedAndClosed) {
  Given given{"0123456789", 0, 0};
  {
    const auto source = callback_source({read_callback, close_callback, &given}, given.bytes.size());
    for (const Mode mode : {Mode::automatic, Mode::map, Mode::copy_on_write, Mode::read}) source->prepare(mode, true);
    EXPECT_EQ(source->view(), nullptr);
    EXPECT_EQ(read(*source, 1, 9), "123456789");
    given.code = -7;
    std::optional<Error> error;
    try {
      read(*source, 3, 5);
    } catch (const Error& caught) {
      error = caught;
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, Status::callback);
    EXPECT_EQ(error->offset, 3U);
    EXPECT_NE(error->message.find("-7"), std::string::npos);
    EXPECT_EQ(read(*source, 5, 0), "");  // an empty read makes no request
  }
  EXPECT_EQ(given.closed, 1);
}

TEST(CallbackSource, ReadsWhatIsAdjacentWithOneRequestIfItStatesAGap) {
  struct Context {
    std::string bytes = "0123456789";
    std::string requests;

    static std::int32_t read(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
      auto& self = *static_cast<Context*>(ctx);
      self.requests += formatted("{}+{} ", offset, n);
      std::memcpy(dst, self.bytes.data() + offset, n);
      return 0;
    }
  } context;
  Callbacks callbacks{Context::read, nullptr, &context};
  for (const std::uint64_t gap : {0U, 1U}) {
    callbacks.gap_bytes = gap;
    context.requests.clear();
    const auto source = callback_source(callbacks, context.bytes.size());
    std::string got(6, '?');
    auto* const to = reinterpret_cast<std::byte*>(got.data());
    source->read_many(std::vector<Read>{{1, 2, to}, {3, 1, to + 2}, {6, 1, to + 3}, {7, 2, to + 4}});
    EXPECT_EQ(got, "123678");
    EXPECT_EQ(source->traits().joins_reads, gap != 0);
    EXPECT_EQ(context.requests, gap == 0 ? "1+2 3+1 6+1 7+2 " : "1+3 6+3 ");
  }
}

TEST(CallbackSource, IsWaitedForWhateverTheCacheIsToDo) {
  Given given{"abc", 0, 0};
  const auto source = callback_source({read_callback, nullptr, &given}, 3);
  for (const Cache cache : {Cache::automatic, Cache::through, Cache::around}) {
    EXPECT_EQ(source->open_reader(cache)->path_for(0, 3), ReadPath::buffered);
  }
}

TEST(Identity, EachFieldTellsTwoStatesApartAndTwoOfThemTwoFiles) {
  struct Case {
    const char* name;
    Identity other;
    bool same_file;
    bool same_bytes = false;
  };
  const Identity given{1, 2, 3, {4, 5}, {6, 7}};
  const Case cases[] = {
      {"device", {9, 2, 3, {4, 5}, {6, 7}}, false},
      {"inode", {1, 9, 3, {4, 5}, {6, 7}}, false},
      {"size", {1, 2, 9, {4, 5}, {6, 7}}, true},
      {"modified, seconds", {1, 2, 3, {9, 5}, {6, 7}}, true},
      {"modified, rest", {1, 2, 3, {4, 9}, {6, 7}}, true},
      {"changed, seconds", {1, 2, 3, {4, 5}, {9, 7}}, true, true},
      {"changed, rest", {1, 2, 3, {4, 5}, {6, 9}}, true, true},
  };
  EXPECT_TRUE(given == given);
  EXPECT_FALSE(given != given);
  EXPECT_TRUE(given.same_file(given));
  for (const Case& which : cases) {
    EXPECT_FALSE(given == which.other) << which.name;
    EXPECT_TRUE(given != which.other) << which.name;
    EXPECT_EQ(given.same_file(which.other), which.same_file) << which.name;
    EXPECT_EQ(which.other.same_file(given), which.same_file) << which.name;
    EXPECT_EQ(given.same_bytes(which.other), which.same_bytes) << which.name;
  }
}

}  // namespace
}  // namespace st::io::source_test
