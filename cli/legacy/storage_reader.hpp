// Reads a storage from its first byte on, unpacks it, and checks at its end that its bytes are what the archive says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "checkpoint.hpp"

namespace cli::legacy {

class StorageReader {
 public:
  // begin, end: the part of it that is read. All of it, if it is packed or has a checksum.
  StorageReader(const Input& input, const Storage& storage, std::uint64_t begin, std::uint64_t end);
  ~StorageReader();
  StorageReader(const StorageReader&) = delete;
  StorageReader& operator=(const StorageReader&) = delete;

  std::uint64_t position() const { return at_; }  // of the next byte

  // Returns how many bytes it has read: n, or fewer at the end, and there 0. Throws a Refusal.
  std::size_t read(void* to, std::size_t n);

 private:
  struct Inflater;

  void load();
  std::size_t unpack(void* to, std::size_t n);
  void inflate(void* to, std::size_t n);
  void check_end();

  const Input& input_;
  const Storage& storage_;
  std::uint64_t at_;
  std::uint64_t end_;
  [[maybe_unused]] std::uint64_t packed_at_ = 0;  // both: without ST_ZIP
  [[maybe_unused]] std::uint32_t crc_ = 0;
  std::unique_ptr<Inflater> inflater_;
};

// Returns all bytes. Throws a Refusal if they are more than `limit`.
std::string read_whole(const Input& input, const Storage& storage, std::uint64_t limit);

}  // namespace cli::legacy
