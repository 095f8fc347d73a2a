// Advice about a part of a mapping.
// SPDX-License-Identifier: Apache-2.0
#include "io/mapping.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "../files.hpp"
#include "../system.hpp"
#include "io/posix/descriptor.hpp"

namespace st::io {
namespace {

constexpr std::size_t kPages = 4;

// '1' for each page of the process that is there, '0' for the others.
std::string pages_there(const std::byte* begin, std::size_t page) {
  const Descriptor map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::array<std::uint64_t, kPages> entries{};
  const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(begin) / page * sizeof entries[0]);
  if (::pread(map.get(), entries.data(), sizeof entries, at) != sizeof entries) return "";
  std::string there;
  for (const std::uint64_t entry : entries) there += (entry >> 63) != 0 ? '1' : '0';
  return there;
}

class MappingTest : public FolderTest {};

TEST_F(MappingTest, advice_is_about_every_page_that_has_a_byte_of_the_range) {
  if (!has_linux_io()) GTEST_SKIP() << "this advice does nothing in this build";
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  put(path(), std::string(kPages * page, 'x'));
  const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  const struct {
    std::size_t offset, bytes;
    const char* left;
  } cases[] = {
      {0, 1, "0111"},          {page, page, "1011"}, {page + 100, page, "1001"}, {2 * page - 1, 2, "1001"},
      {100, 3 * page, "0000"}, {100, 0, "1111"},     {4 * page - 1, 1, "1110"},
  };
  for (const auto& [offset, bytes, left] : cases) {
    int os_error = 0;
    const Mapping mapping = Mapping::of(file.get(), 0, kPages * page, MapKind::read_only, os_error);
    ASSERT_NE(mapping.data(), nullptr);
    for (std::size_t i = 0; i < kPages; ++i) EXPECT_EQ(mapping.data()[i * page], std::byte{'x'});
    if (pages_there(mapping.data(), page) != "1111") GTEST_SKIP() << "the system does not tell which pages are there";
    mapping.advise(offset, bytes, Advice::dont_need);
    EXPECT_EQ(pages_there(mapping.data(), page), left) << offset << " + " << bytes;
  }
}

}  // namespace
}  // namespace st::io
