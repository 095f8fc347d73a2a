// Standard output, in large pieces and with every error noticed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace cli {

class Output {
 public:
  using Place = std::function<void(std::string_view)>;

  Output() = default;
  // Text goes there, and not to standard output.
  explicit Output(Place place) : place_(std::move(place)) {}

  template <class... Args>
  void print(fmt::format_string<Args...> text, const Args&... args) {
    print_text(text, fmt::make_format_args(args...));
  }
  void write(std::string_view text);
  void write_number(std::uint64_t number);

  // Throws a Failure. If the reader has closed its end (`| head`), the command ends by the signal.
  void flush();

 private:
  void print_text(fmt::string_view text, fmt::format_args args);
  void put(std::string_view text) const;

  static constexpr std::size_t kFlushAt = 1 << 16;
  std::string buffer_;
  Place place_;
};

}  // namespace cli
