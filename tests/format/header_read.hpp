// Reads a header as a file is opened, without the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "file_front.hpp"
#include "format/header.hpp"

namespace st::format {

struct HeaderRead {
  std::vector<char> header;  // the table's names live here
  Table table{std::pmr::new_delete_resource()};
};

// `data` bytes would follow the header.
inline std::unique_ptr<HeaderRead> read(const std::string& header, std::uint64_t data,
                                        const HeaderOptions& options = {}) {
  auto result = std::make_unique<HeaderRead>();
  const std::uint64_t size = kLengthBytes + header.size() + data;
  const std::string some_data(static_cast<std::size_t>(std::min<std::uint64_t>(data, 64)), '\1');
  const std::string prefix = (file_front(header) + some_data).substr(0, 64);
  EXPECT_EQ(find_header(prefix, size, options).bytes, header.size());
  result->header.assign(header.begin(), header.end());
  result->header.resize(header.size() + kPadding);
  read_header({result->header.data(), header.size()}, size, options, result->table);
  return result;
}

// Status::ok if there is none.
inline Error error_of(const std::string& header, std::uint64_t data, const HeaderOptions& options = {}) {
  try {
    read(header, data, options);
    return {Status::ok, 0, kNowhere, {}};
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace st::format
