// Standard output, in large pieces and with every error noticed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace cli {

class Output {
 public:
  using Place = std::function<void(std::string_view)>;

  Output() = default;
  // Text goes there, and not to standard output.
  explicit Output(Place place) : place_(std::move(place)) {}

  template <class... Args>
  void print(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), text, std::forward<Args>(args)...);
    if (buffer_.size() >= kFlushAt) flush();
  }
  void write(std::string_view text);

  // Throws a Failure. If the reader has closed its end (`| head`), the command ends without a message.
  void flush();

 private:
  void put(std::string_view text) const;

  static constexpr std::size_t kFlushAt = 1 << 16;
  fmt::memory_buffer buffer_;
  Place place_;
};

}  // namespace cli
