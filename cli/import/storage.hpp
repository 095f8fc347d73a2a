// Access to the elements of a storage: sequential, with decompression and checksum, or gathered by strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint.hpp"

namespace cli::importer {

// Reads a storage sequentially, and verifies its length and checksum at the end.
class StorageReader {
 public:
  // begin, end: the range to read. A storage that is deflated or has a checksum is always read completely.
  StorageReader(const Input& input, Storage storage, std::uint64_t begin, std::uint64_t end);
  ~StorageReader();
  StorageReader(const StorageReader&) = delete;
  StorageReader& operator=(const StorageReader&) = delete;

  std::uint64_t position() const { return at_; }  // of the next byte

  // Returns the number of bytes read: n, fewer at the end, 0 after the end. Throws an ImportError.
  std::size_t read(void* to, std::size_t n);

 private:
  struct Inflater;

  void load();
  std::size_t unpack(void* to, std::size_t n);
  void inflate(void* to, std::size_t n);
  void check_end();

  const Input& input_;
  const Storage storage_;
  std::uint64_t at_;
  std::uint64_t end_;
  [[maybe_unused]] std::uint64_t packed_at_ = 0;  // unused without ST_ZIP, like the next
  [[maybe_unused]] std::uint32_t crc_ = 0;
  std::unique_ptr<Inflater> inflater_;
};

// Returns all bytes. Throws an ImportError if there are more than `limit`.
std::string read_whole(const Input& input, const Storage& storage, std::uint64_t limit);

// A verified, uncompressed storage, which can be read repeatedly and by position.
struct VerifiedStorage {
  const Input* input = nullptr;
  Storage storage;
  std::unique_ptr<const Input> unpacked;  // owns `input` if it is a temporary file
};

// Verifies a storage, and unpacks a deflated one into an unnamed temporary file. Calls `each_block`, which may throw,
// after each block.
VerifiedStorage verified(const Input& input, const Storage& storage, const std::function<void()>& each_block);

using TakeBytes = std::function<void(const char* bytes, std::size_t n)>;

// Passes the elements of a tensor to `take` in row-major order. Maps the file, because strides can lead anywhere in the
// file. The storage must be verified and not deflated. Memory use does not depend on the tensor's size.
void gather(const Input& input, const Storage& storage, const Tensor& tensor, const TakeBytes& take);

}  // namespace cli::importer
