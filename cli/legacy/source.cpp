// SPDX-License-Identifier: Apache-2.0
#include "source.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "refusal.hpp"
#include "storage_reader.hpp"

namespace cli::legacy {
namespace {

constexpr std::size_t kBlock = std::size_t{4} << 20;

std::string temporary_folder() {
  const char* const given = std::getenv("TMPDIR");
  return given == nullptr || *given == '\0' ? "/tmp" : given;
}

[[noreturn]] void fail() {
  throw Failure{kUnreadable, temporary_folder() + ": a temporary file: " + std::strerror(errno)};
}

// It has no name, so that nothing can leave it behind; where the system makes no such file it has one for a moment, in
// which a signal may leave it, empty.
Descriptor temporary_file() {
  const std::string folder = temporary_folder();
#ifdef O_TMPFILE
  if (Descriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600)); file) return file;
#endif
  std::string path = folder + "/safetensors-XXXXXX";
  Descriptor file(mkstemp(path.data()));
  if (!file || unlink(path.c_str()) != 0 || fcntl(file.get(), F_SETFD, FD_CLOEXEC) != 0) fail();
  return file;
}

void write_all(int file, const char* at, std::size_t n) {
  while (n > 0) {
    const ssize_t written = write(file, at, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    at += written;
    n -= static_cast<std::size_t>(written);
  }
}

// file: null if the bytes are only to be checked.
void read_all(StorageReader& reader, const Descriptor* file) {
  std::vector<char> block(kBlock);
  while (const std::size_t n = reader.read(block.data(), block.size())) {
    if (file != nullptr) write_all(file->get(), block.data(), n);
  }
}

}  // namespace

Source prepare(const Input& input, const Storage& storage) {
  StorageReader reader(input, storage, 0, storage.bytes);
  if (!storage.deflated) {
    if (storage.crc) read_all(reader, nullptr);
    return {&input, {storage.name, storage.begin, storage.bytes, storage.bytes, false, {}}, nullptr};
  }
  Descriptor file = temporary_file();
  read_all(reader, &file);
  auto unpacked = std::make_unique<const Input>(std::move(file), storage.bytes, "a temporary file");
  const Input* const from = unpacked.get();
  return {from, {storage.name, 0, storage.bytes, storage.bytes, false, {}}, std::move(unpacked)};
}

}  // namespace cli::legacy
