// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace bench {

namespace {

constexpr std::uint64_t kTensors = 160;
constexpr std::uint64_t kSmall = 8192;
constexpr std::size_t kBlock = std::size_t{8} << 20;

class File {
 public:
  File(const std::string& path, int flags) : path_(path), descriptor_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(descriptor_); }

  void write_all(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written <= 0) fail();
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  int descriptor() const { return descriptor_; }
  [[noreturn]] void fail() const { throw std::runtime_error(path_ + ": " + std::strerror(errno)); }

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace

void expected_bytes(std::uint64_t offset, std::span<std::byte> out) {
  for (std::size_t i = 0; i < out.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t place = (offset + i) / sizeof(std::uint64_t) + 1;
    const std::uint64_t value = place * 0x9E3779B97F4A7C15U ^ place >> 7;
    std::memcpy(out.data() + i, &value, sizeof value);
  }
}

void write_checkpoint(const std::string& path, std::uint64_t bytes) {
  const std::uint64_t large = std::max(bytes / (kTensors * 4 / 5) / 64 * 64, kSmall);
  std::string header = "{";
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < kTensors; ++i) {
    const std::uint64_t size = i % 5 == 4 ? kSmall : large;
    header += (i == 0 ? "\"layers." : ",\"layers.") + std::to_string(i) + R"(.weight":{"dtype":"I16","shape":[)" +
              std::to_string(size / 2) + "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + size) +
              "]}";
    at += size;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  const File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  file.write_all(std::as_bytes(std::span(&length, 1)));
  file.write_all(std::as_bytes(std::span(header)));
  std::vector<std::byte> block(kBlock);
  for (std::uint64_t done = 0; done < at; done += block.size()) {
    const std::span part = std::span(block).first(static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, at - done)));
    expected_bytes(done, part);
    file.write_all(part);
  }
  if (fsync(file.descriptor()) != 0) file.fail();
}

void spoil(const std::string& path, std::uint64_t offset) {
  const File file(path, O_RDWR);
  std::uint64_t length = 0;
  std::byte one{};
  if (pread(file.descriptor(), &length, sizeof length, 0) != sizeof length) file.fail();
  const auto at = static_cast<off_t>(sizeof length + length + offset);
  if (pread(file.descriptor(), &one, 1, at) != 1) file.fail();
  one ^= std::byte{1};
  if (pwrite(file.descriptor(), &one, 1, at) != 1) file.fail();
}

}  // namespace bench
