// The bytes of a checkpoint in a file or in memory, and a cursor that reads numbers and text from them.
//
// Everything is read by position and copied. Parsing a mapping would be unsafe, because another process could change
// the bytes between check and use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "descriptor.hpp"
#include "io/source.hpp"

namespace cli::importer {

class Input {
 public:
  // Throws an ImportError if the path is not a readable regular file.
  explicit Input(const std::string& path);
  Input(Descriptor file, std::uint64_t size);

  // Makes an input from the unpacked contents of an archive's entry.
  static Input of_memory(std::string bytes);

  std::uint64_t size() const { return size_; }
  int descriptor() const { return file_.get(); }  // -1: memory

  // Throws an ImportError if the file is too short or cannot be read.
  void read(std::uint64_t offset, void* to, std::size_t n) const;

  // Throws an ImportError if the file's length or time of change differs from when it was opened. Reading through a
  // mapping reveals neither changed bytes nor a file that now ends inside its last page.
  void require_unchanged() const;
  const st::io::Identity& seen() const { return seen_; }  // when it was opened

 private:
  Input() = default;

  Descriptor file_;
  std::uint64_t size_ = 0;
  st::io::Identity seen_;  // for a file opened by path
  std::string memory_;
};

// Reads little-endian numbers and text sequentially from a range of an Input, through a fixed-size buffer.
class Cursor {
 public:
  // base: added to positions in messages, for an Input in memory that came from a file.
  Cursor(const Input& input, std::uint64_t begin, std::uint64_t end, std::uint64_t base = 0)
      : input_(input), at_(begin), end_(end), base_(base) {}

  std::uint64_t position() const { return at_; }
  std::uint64_t offset() const { return base_ + at_; }  // for messages
  std::uint64_t left() const { return end_ - at_; }

  std::uint8_t peek() { return *buffered(1); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }

  std::string text(std::uint64_t n);  // at most kLongestText bytes
  std::string line();                 // without its line feed, at most kLongestLine bytes
  void skip(std::uint64_t n);

  static constexpr std::uint64_t kLongestText = std::uint64_t{64} << 20;
  static constexpr std::size_t kLongestLine = 1024;

 private:
  std::uint64_t number(std::size_t bytes);
  void require(std::uint64_t n) const;
  const unsigned char* buffered(std::size_t n);

  const Input& input_;
  std::uint64_t at_;
  std::uint64_t end_;
  std::uint64_t base_;
  std::uint64_t buffer_begin_ = 0;
  std::size_t buffer_size_ = 0;
  std::array<unsigned char, 1 << 14> buffer_;
};

}  // namespace cli::importer
