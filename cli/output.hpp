// Standard output, in large pieces and with every error noticed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace cli {

class Output {
 public:
  template <class... Args>
  void print(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), text, std::forward<Args>(args)...);
    if (buffer_.size() >= kFlushAt) flush();
  }
  void write(std::string_view text);

  // Throws a Failure. If the reader has closed its end (`| head`), the command ends without a message.
  void flush();

 private:
  static void put(std::string_view text);

  static constexpr std::size_t kFlushAt = 1 << 16;
  fmt::memory_buffer buffer_;
};

}  // namespace cli
