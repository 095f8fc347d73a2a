// SPDX-License-Identifier: Apache-2.0
#include "source.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "refusal.hpp"
#include "storage_reader.hpp"

namespace cli::legacy {
namespace {

constexpr std::size_t kBlock = std::size_t{4} << 20;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] void fail() { throw Failure{kUnreadable, std::string("a temporary file: ") + std::strerror(errno)}; }

// file: null if the bytes are only to be checked.
void read_all(StorageReader& reader, std::FILE* file) {
  std::vector<char> block(kBlock);
  while (const std::size_t n = reader.read(block.data(), block.size())) {
    if (file != nullptr && std::fwrite(block.data(), 1, n, file) != n) fail();
  }
}

}  // namespace

Source prepare(const Input& input, const Storage& storage) {
  StorageReader reader(input, storage, 0, storage.bytes);
  if (!storage.deflated) {
    if (storage.crc) read_all(reader, nullptr);
    return {&input, {storage.name, storage.begin, storage.bytes, storage.bytes, false, {}}, nullptr};
  }
  const File file(std::tmpfile());
  if (!file) fail();
  read_all(reader, file.get());
  if (std::fflush(file.get()) != 0) fail();
  Descriptor descriptor(fcntl(fileno(file.get()), F_DUPFD_CLOEXEC, 0));
  if (!descriptor) fail();
  auto unpacked = std::make_unique<const Input>(std::move(descriptor), storage.bytes, "a temporary file");
  const Input* const from = unpacked.get();
  return {from, {storage.name, 0, storage.bytes, storage.bytes, false, {}}, std::move(unpacked)};
}

}  // namespace cli::legacy
