// Reading the numbers and strings of a bintensors header (docs/format.md), each of which says its own length. Lengths and
// counts are untrusted: none is believed that the bytes behind it cannot hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/compiler.hpp"
#include "base/error.hpp"
#include "format/header_length.hpp"

namespace st::format::bintensors {

// Behind the header there is room to read on: kPadding.
inline std::uint64_t eight_bytes(const char* at) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, at, 8);
  return bytes;
}

// Numbers one after the other. A fault is remembered instead of thrown, and said by the Cursor: without a call in
// them the loops over entries and dimensions stay in registers, and are twice as fast.
struct Numbers {
  const char* at;
  const char* end;
  const char* fault = nullptr;  // the first

  std::uint64_t take() {
    if (at == end) return fail();
    const auto first = static_cast<unsigned char>(*at);
    if (first > kLargestByte) return take_long(first);
    ++at;
    return first;
  }

  std::uint64_t left() const { return static_cast<std::uint64_t>(end - at); }

 private:
  static constexpr unsigned char kLargestByte = 250;  // above: how many bytes the number has

  std::uint64_t take_long(unsigned char marker) {
    const std::size_t size = std::size_t{2} << (marker - 0xFB);
    if (marker > 0xFD || left() <= size) return fail();
    const std::uint64_t value = little_endian(at + 1, size);
    at += 1 + size;
    return value;
  }

  static std::uint64_t little_endian(const char* bytes, std::size_t size) {
    if constexpr (std::endian::native == std::endian::little) return eight_bytes(bytes) & UINT64_MAX >> (64 - 8 * size);
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  std::uint64_t fail() {
    if (fault == nullptr) fault = at;
    at = end;
    return 0;
  }
};

class Cursor {
 public:
  explicit Cursor(std::span<const char> header) : begin_(header.data()), at_(begin_), end_(begin_ + header.size()) {}

  Numbers numbers() const { return {at_, end_}; }

  // Behind what was taken.
  void resume(const Numbers& numbers) {
    if (numbers.fault != nullptr) fail_number(numbers.fault);
    at_ = numbers.at;
  }

  std::uint64_t number() {
    Numbers numbers = this->numbers();
    const std::uint64_t value = numbers.take();
    resume(numbers);
    return value;
  }

  std::string_view string();
  // Of items that take `least` bytes each, or more.
  std::uint64_t count(std::uint64_t least, std::string_view what);
  // How many of `n` such items can have names that differ.
  std::size_t distinct(std::uint64_t n, std::uint64_t least) const;

  std::span<const char> rest() const { return {at_, end_}; }
  std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - at_); }
  std::uint64_t offset() const { return kLengthBytes + static_cast<std::uint64_t>(at_ - begin_); }

  // What is being read, for messages.
  void set_subject(std::string_view tensor_name) { subject_ = tensor_name; }
  std::string_view subject() const { return subject_; }

  [[noreturn]] ST_COLD void fail_here(Status status, std::uint64_t place, std::string_view what) const;

 private:
  [[noreturn]] ST_COLD void fail_number(const char* at);

  const char* const begin_;
  const char* at_;
  const char* const end_;
  std::string_view subject_;
};

}  // namespace st::format::bintensors
