// The caller's callbacks are asked for bytes, and closed once.
// SPDX-License-Identifier: Apache-2.0
#include "io/callback_source.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "io/source_reader.hpp"

namespace st::io {
namespace {

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

std::string read(const Source& source, std::uint64_t offset, std::size_t n) {
  std::string bytes(n, '?');
  source.read_at(offset, bytes.data(), n);
  return bytes;
}

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
    EXPECT_EQ(read(*source, 5, 0), "");  // nothing is not asked for
  }
  EXPECT_EQ(given.closed, 1);
}

TEST(CallbackSource, IsWaitedForWhateverTheCacheIsToDo) {
  Given given{"abc", 0, 0};
  const auto source = callback_source({read_callback, nullptr, &given}, 3);
  for (const Cache cache : {Cache::automatic, Cache::through, Cache::around}) {
    EXPECT_EQ(source->open_reader(cache)->path_for(0, 3), ReadPath::buffered);
  }
}

}  // namespace
}  // namespace st::io
