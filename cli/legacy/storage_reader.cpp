// SPDX-License-Identifier: Apache-2.0
#include "storage_reader.hpp"

#include <algorithm>
#include <array>
#include <limits>

#ifdef ST_ZIP
#include <zlib.h>
#endif

#include "refusal.hpp"

namespace cli::legacy {

#ifdef ST_ZIP

bool reads_zip() { return true; }

struct StorageReader::Inflater {
  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }

  z_stream stream{};
  bool ended = false;
  std::array<unsigned char, 1 << 16> packed;
};

// Leaves the inflater without packed bytes where there are no more.
void StorageReader::load() {
  const std::uint64_t left = storage_.packed - packed_at_;
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left, inflater_->packed.size()));
  input_.read(storage_.begin + packed_at_, inflater_->packed.data(), bytes);
  packed_at_ += bytes;
  inflater_->stream.next_in = inflater_->packed.data();
  inflater_->stream.avail_in = static_cast<uInt>(bytes);
}

// Returns how many bytes it has unpacked: n, or fewer where the packed bytes end.
std::size_t StorageReader::unpack(void* to, std::size_t n) {
  z_stream& stream = inflater_->stream;
  stream.next_out = static_cast<Bytef*>(to);
  stream.avail_out = static_cast<uInt>(n);
  bool is_last = false;
  while (stream.avail_out > 0 && !inflater_->ended && !is_last) {
    if (stream.avail_in == 0) load();
    is_last = stream.avail_in == 0;  // and yet the inflater may hold some bits
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    inflater_->ended = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      refuse(storage_.begin, "zip: the packed bytes of '{}' are damaged", storage_.name);
    }
  }
  return n - stream.avail_out;
}

void StorageReader::inflate(void* to, std::size_t n) {
  const std::size_t unpacked = unpack(to, n);
  if (unpacked == n) return;
  refuse(storage_.begin, "zip: '{}' unpacks to {} bytes, {} are announced", storage_.name, at_ + unpacked,
         storage_.bytes);
}

// The mark of the end may lie in packed bytes that are still to be loaded.
void StorageReader::check_end() {
  unsigned char extra = 0;
  if (inflater_ && unpack(&extra, 1) > 0) {
    refuse(storage_.begin, "zip: '{}' unpacks to more than the {} bytes announced", storage_.name, storage_.bytes);
  }
  if (inflater_ && !inflater_->ended) {
    refuse(storage_.begin, "zip: the packed bytes of '{}' have no end", storage_.name);
  }
  if (!storage_.crc || *storage_.crc == crc_) return;
  refuse(storage_.begin, "zip: the bytes of '{}' have the CRC {:08x}, {:08x} is announced", storage_.name, crc_,
         *storage_.crc);
}

#else

bool reads_zip() { return false; }
struct StorageReader::Inflater {};
void StorageReader::inflate(void*, std::size_t) {}
void StorageReader::check_end() {}

#endif

StorageReader::StorageReader(const Input& input, const Storage& storage, std::uint64_t begin, std::uint64_t end)
    : input_(input), storage_(storage), at_(begin), end_(end) {
  if (storage.crc || storage.deflated) {
    at_ = 0;
    end_ = storage.bytes;
  }
  if (storage.deflated) inflater_ = std::make_unique<Inflater>();
  if (at_ == end_) check_end();
}

StorageReader::~StorageReader() = default;

std::size_t StorageReader::read(void* to, std::size_t n) {
  n = static_cast<std::size_t>(std::min<std::uint64_t>(n, end_ - at_));
  if (n == 0) return 0;
  storage_.deflated ? inflate(to, n) : input_.read(storage_.begin + at_, to, n);
#ifdef ST_ZIP
  if (storage_.crc) crc_ = static_cast<std::uint32_t>(crc32_z(crc_, static_cast<const Bytef*>(to), n));
#endif
  at_ += n;
  if (at_ == end_) check_end();
  return n;
}

std::string read_whole(const Input& input, const Storage& storage, std::uint64_t limit) {
  if (storage.bytes > limit) {
    refuse(storage.begin, "'{}' has {} bytes, {} are the limit", storage.name, storage.bytes, limit);
  }
  std::string bytes(static_cast<std::size_t>(storage.bytes), '\0');
  StorageReader reader(input, storage, 0, storage.bytes);
  reader.read(bytes.data(), bytes.size());
  return bytes;
}

}  // namespace cli::legacy
