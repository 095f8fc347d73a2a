// A source that brings no reader of its own.
// SPDX-License-Identifier: Apache-2.0
#include "io/source.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "io/source_reader.hpp"

namespace st::io {
namespace {

constexpr std::uint64_t kOrigin = 1000;

// Lies somewhere in a larger file; no byte of it can be read.
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

}  // namespace
}  // namespace st::io
