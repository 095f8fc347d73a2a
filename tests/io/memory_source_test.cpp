// The caller's memory is read as it is, and given back once.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory_source.hpp"

#include <gtest/gtest.h>

#include <string>

#include "io/source_reader.hpp"

namespace st::io {
namespace {

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
  for (const Cache cache : {Cache::automatic, Cache::through, Cache::around}) {
    EXPECT_EQ(source->open_reader(cache)->path_for(0, 3), ReadPath::cached);
  }
}

}  // namespace
}  // namespace st::io
