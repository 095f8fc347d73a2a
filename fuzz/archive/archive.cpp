// Any bytes as a file of torch, numpy or llama.cpp: reading it must never fault, and what it says must hold.
//
// The storages of what is accepted are read to their ends, too, if they are small: they are then as long as announced.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../fuzz.hpp"
#include "import/error.hpp"
#include "import/formats.hpp"
#include "import/storage.hpp"

namespace {

using fuzz::require;
using namespace cli::importer;

constexpr std::uint64_t kMostToRead = 1 << 20;

void check_directory(const Input& input) {
  std::uint64_t end = 0;
  Budget budget(input.size());
  for (const ZipEntry& entry : read_zip_directory(input, budget)) {
    require(entry.header >= end && entry.begin >= entry.header, "entries do not overlap");
    require(entry.begin <= input.size() && entry.packed <= input.size() - entry.begin, "an entry lies in the file");
    require(entry.deflated || entry.packed == entry.bytes, "what is not packed has one size");
    end = entry.begin + entry.packed;
  }
}

void check_tensor(const Checkpoint& checkpoint, const Tensor& tensor) {
  const Storage& storage = checkpoint.storages.at(tensor.storage);
  require(storage.begin <= checkpoint.input->size(), "a storage begins in the file");
  require(storage.packed <= checkpoint.input->size() - storage.begin, "a storage ends in the file");
  require(tensor.begin <= tensor.end && tensor.end <= storage.bytes, "a tensor lies in its storage");
  if (is_contiguous(tensor)) require(tensor.bytes == tensor.end - tensor.begin, "a tensor is as long as its elements");
  if (storage.bytes > kMostToRead) return;
  StorageReader reader(*checkpoint.input, storage, 0, storage.bytes);
  std::vector<char> block(999);
  while (reader.read(block.data(), block.size()) > 0) continue;
  require(reader.position() == storage.bytes, "a storage is as long as announced");
}

void check(std::string file) {
  const std::size_t size = file.size();
  const bool is_zip = file.starts_with("PK");
  try {
    const Input copy = Input::of_memory(file);
    const Checkpoint checkpoint =
        read_checkpoint(std::make_unique<const Input>(Input::of_memory(std::move(file))), {"array", ""});
    if (is_zip) check_directory(copy);
    for (const Tensor& tensor : checkpoint.tensors) check_tensor(checkpoint, tensor);
    check_growth(checkpoint);
  } catch (const ImportError& error) {
    // In a packed entry it points into what that unpacks to.
    require(error.offset <= size || error.offset == kNoOffset || is_zip, "an error points into the file");
    require(!error.message.empty(), "an error has a message");
  }
}

std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320 & (0 - (crc & 1)));
  }
  return ~crc;
}

// Sets the checksums of an archive right again, or no mutant of a pickle or an array would be read.
std::string repaired(std::string file) {
  constexpr std::size_t kEntryBytes = 46;
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(file[at + i]);
    return std::size_t{value};
  };
  for (std::size_t at = file.find("PK\x01\x02"); at != file.npos && file.size() - at >= kEntryBytes;
       at = file.find("PK\x01\x02", at + 1)) {
    const std::size_t header = number(at + 42);
    if (header > file.size() || file.size() - header < 30) continue;
    const std::size_t names = number(header + 26);
    const std::size_t begin = header + 30 + (names & 0xFFFF) + (names >> 16);
    if (begin > file.size() || number(at + 20) > file.size() - begin) continue;
    const std::uint32_t crc = crc_of(std::string_view(file).substr(begin, number(at + 20)));
    for (std::size_t i = 0; i < 4; ++i) file[at + 16 + i] = static_cast<char>(crc >> (8 * i));
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  check(std::string(data, data + size));
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  const std::size_t changed = LLVMFuzzerMutate(data, size, most);
  return seed % 2 == 0 ? changed : fuzz::change(data, changed, most, repaired);
}
