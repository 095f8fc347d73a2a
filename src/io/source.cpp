// SPDX-License-Identifier: Apache-2.0
#include "io/source.hpp"

#include <vector>

#include "base/error.hpp"
#include "io/source_reader.hpp"

namespace st::io {

namespace {

class DefaultReader final : public SourceReader {
 public:
  explicit DefaultReader(const Source& source) : SourceReader(source) {}

  bool is_cached(std::uint64_t /*begin*/, std::uint64_t /*end*/) override { return source().view() != nullptr; }

  ReadPath path_for(std::uint64_t begin, std::uint64_t end) override {
    return is_cached(begin, end) ? ReadPath::cached : ReadPath::buffered;
  }

  bool read_many(ReadPath /*path*/, std::span<const Read> reads, std::uint64_t /*needed_end*/) override {
    const std::uint64_t origin = source().traits().origin;
    std::vector<Read> shifted(reads.begin(), reads.end());
    for (Read& read : shifted) read.offset -= origin;
    try {
      source().read_many(shifted);
    } catch (Error& error) {
      if (error.offset != kNowhere) error.offset += origin;
      throw;
    }
    return true;
  }
};

}  // namespace

void Source::read_many(std::span<const Read> reads) const {
  for (const Read& read : reads) read_at(read.offset, read.dst, read.bytes);
}

std::unique_ptr<SourceReader> Source::open_reader(Cache /*cache*/) const {
  return std::make_unique<DefaultReader>(*this);
}

}  // namespace st::io
